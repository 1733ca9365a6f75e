package firewall

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/value"
)

// BuiltIn is a rule that the gateway creates.
type BuiltIn struct {
	Name       string         `json:"name" doc:"What it is about."`
	Text       string         `json:"text" doc:"What it does, and why."`
	Action     string         `json:"action" doc:"accept or drop."`
	Last       bool           `json:"last" doc:"It comes after your rules. The others come before them, so your rules cannot change what they decide."`
	Ports      []string       `json:"ports" doc:"Protocols and ports of the gateway that it is about, for example tcp/22; empty if it is about more than that."`
	Interfaces []value.IfName `json:"interfaces" doc:"Interfaces that the traffic comes in by; empty for all."`
	Addresses  []value.Addr   `json:"addresses" doc:"Addresses of the gateway that it is about; empty for all."`
}

func (a automatic) builtIn(action string, last bool, ports ...policy.Port) BuiltIn {
	b := BuiltIn{Name: a.title, Text: strings.ToUpper(a.text[:1]) + a.text[1:] + ".", Action: action, Last: last, Ports: []string{}, Interfaces: []value.IfName{}, Addresses: []value.Addr{}}
	for _, p := range ports {
		b.Ports = append(b.Ports, fmt.Sprintf("%s/%d", p.Proto, p.Number))
	}
	return b
}

// builtIn lists the rules that the gateway creates, in the order in which packets meet them.
func (r *Room) builtIn(ctx context.Context) ([]BuiltIn, error) {
	c, err := r.load(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	const accept = "accept"
	list := []BuiltIn{
		autoEstablished.builtIn(accept, false), autoLoopback.builtIn(accept, false), autoNeighbours.builtIn(accept, false),
		autoLockout.builtIn(accept, false, policy.AntiLockout...),
	}
	if len(c.Peers) > 0 {
		list = append(list, autoCluster.builtIn(accept, false, policy.Peering...))
	}
	list = append(list, autoDNAT.builtIn(accept, false))
	for _, o := range c.Openings {
		b := autoOpening(o).builtIn(accept, true, policy.Port{Proto: o.Proto, Number: uint16(o.Port)})
		b.Interfaces, b.Addresses = append(b.Interfaces, o.Interfaces...), append(b.Addresses, o.Addresses...)
		list = append(list, b)
	}
	for _, t := range c.Tunnels {
		b := autoTunnel(t).builtIn(accept, true)
		b.Interfaces = append(b.Interfaces, t.Interface)
		list = append(list, b)
	}
	return append(list, autoDrop.builtIn("drop", true)), nil
}

func (r *Room) mountBuiltIn() {
	httpd.Handle(r.Router, http.MethodGet, "/firewall/built-in", httpd.Read, tag.Doc("firewall.built-in", "The rules that the gateway creates"),
		func(c *httpd.Call, _ struct{}) ([]BuiltIn, error) { return r.builtIn(c) })
}
