package tunnel

import (
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/httpd"
)

// PeerStatus is what WireGuard knows about a peer, or about the upstream of a client.
type PeerStatus struct {
	Interface     string     `json:"interface" doc:"Name of the interface."`
	Endpoint      string     `json:"endpoint" doc:"Where it was last heard from or is dialled, address:port; empty when that is not known."`
	AllowedIPs    []string   `json:"allowed_ips" doc:"Networks that are sent to it and taken from it."`
	LastHandshake *time.Time `json:"last_handshake" doc:"When both ends last agreed on keys; null: never."`
	Rx            int64      `json:"rx" doc:"Bytes that came from it."`
	Tx            int64      `json:"tx" doc:"Bytes that were sent to it."`
	RxRate        float64    `json:"rx_rate" doc:"Bytes a second that come from it, since the reading before, some seconds ago."`
	TxRate        float64    `json:"tx_rate" doc:"Bytes a second that are sent to it."`
	Online        bool       `json:"online" doc:"Whether the last handshake is at most 180 seconds old. One that has nothing to say, and no keepalive, goes offline without harm."`
}

// Device is a WireGuard link of the machine, or one that should be there.
type Device struct {
	Name       string `json:"name" doc:"Name of the link."`
	Kind       string `json:"kind" enum:",kernel,userspace" doc:"Whether the kernel does the work, or the program wireguard-go; empty when the link is not there."`
	Managed    bool   `json:"managed" doc:"Whether it belongs to an interface of the gateway. Others are left alone."`
	Up         bool   `json:"up" doc:"Whether the link is up."`
	ListenPort int    `json:"listen_port" doc:"UDP port that it listens on."`
	PublicKey  string `json:"public_key" doc:"Its public key."`
	Peers      int    `json:"peers" doc:"How many peers it has."`
	Error      string `json:"error" doc:"What is wrong with it; empty when nothing is."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/tunnel/status", httpd.Read, httpd.Doc{ID: "tunnel.status", Tag: "tunnel", Summary: "What WireGuard knows about each peer, by its public key"},
		func(c *httpd.Call, _ struct{}) (map[string]PeerStatus, error) { return map[string]PeerStatus{}, nil })
	httpd.Handle(r.Router, http.MethodGet, "/tunnel/devices", httpd.Read, httpd.Doc{ID: "tunnel.devices", Tag: "tunnel", Summary: "The WireGuard links of the machine"},
		func(c *httpd.Call, _ struct{}) ([]Device, error) { return []Device{}, nil })
}
