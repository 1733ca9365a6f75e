package vrrp

import (
	"slices"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/value"
)

// Render renders the configuration into keepalived's file.
//
// All virtual addresses are excluded from the nodes' advertisements: keepalived ignores a node with another list, and lists differ while
// they are changed. Because it needs at least one, there is a mark on the loopback, which also shows in the kernel which node is the
// master.
func Render(c Config) ([]host.File, error) {
	w := conf.New(conf.Keepalived)
	w.Line("global_defs {")
	w.Line("    router_id gateway")
	w.Line("    enable_script_security")
	w.Line("    script_user", conf.Word(probeUser), conf.Word(probeGroup))
	w.Line("    vrrp_notify_fifo", conf.Word(states))
	w.Line("}")
	if c.able() {
		c.instance(w)
	}
	b, err := w.Bytes()
	return []host.File{{Place: keepalived.Config, Content: b}}, err
}

// The marks are the master's addresses on the loopback.
const (
	mark4 = "127.0.112.1/32"
	mark6 = "fe80::112/128"
)

func (c Config) instance(w *conf.Writer) {
	w.Line("vrrp_script proxy {")
	w.Line("    script", conf.Word(probe))
	w.Line("    interval 1")
	w.Line("    timeout 3")
	w.Line("    fall 2")
	w.Line("    rise 2")
	w.Line("    weight -253") // to failing
	w.Line("}")
	w.Line("track_file drain {")
	w.Line("    file", conf.Word("/run/keepalived/drain"))
	w.Line("    weight", conf.Int(drained-c.Priority))
	w.Line("}")
	w.Line("vrrp_instance gateway {")
	w.Line("    state BACKUP")
	w.Line("    interface", conf.Value(c.Link))
	w.Line("    virtual_router_id", conf.Int(c.RouterID))
	w.Line("    priority", conf.Int(c.Priority))
	w.Line("    unicast_src_ip", conf.Value(c.Own))
	w.Line("    unicast_peer {")
	for _, a := range c.Others {
		w.Line("       ", conf.Value(a))
	}
	w.Line("    }")
	w.Line("    track_script {")
	w.Line("        proxy")
	w.Line("    }")
	w.Line("    track_file {")
	w.Line("        drain")
	w.Line("    }")
	// A node whose only link is down does not have the address: it moves at once. With several links, the others still need theirs, and
	// if a link is down on every node, one of them keeps them all.
	several := c.links()
	if len(several) > 1 {
		w.Line("    track_interface {")
		for _, l := range several {
			if l != c.Link {
				w.Line("       ", conf.Value(l), conf.Word("weight -253"))
			}
		}
		w.Line("    }")
	}
	w.Line("    virtual_ipaddress {")
	if c.Own.Netip().Is4() {
		w.Line("       ", conf.Word(mark4), conf.Word("dev lo"))
	} else {
		w.Line("       ", conf.Word(mark6), conf.Word("dev lo"))
	}
	w.Line("    }")
	w.Line("    virtual_ipaddress_excluded {")
	for _, v := range c.VIPs {
		args := []conf.Arg{conf.Network(v.Address), conf.Word("dev"), conf.Value(v.Link)}
		if len(several) > 1 {
			args = append(args, conf.Word("no_track"))
		}
		w.Line("       ", args...)
	}
	w.Line("    }")
	w.Line("}")
}

// links returns the links with virtual addresses.
func (c Config) links() []value.IfName {
	var list []value.IfName
	for _, v := range c.VIPs {
		if !slices.Contains(list, v.Link) {
			list = append(list, v.Link)
		}
	}
	return list
}
