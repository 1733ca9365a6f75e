package host

import (
	"fmt"
	"io/fs"
)

// Place is one file that the gateway writes on the machine.
type Place string

// The places, by daemon.
const (
	ChronyMain   Place = "chrony.main"
	ChronyDropIn Place = "chrony.dropin"
	// RouteProtocols names the gateway's protocol for those who list routes.
	RouteProtocols Place = "iproute2.protocols"
	// NetworkState is what links, addresses and routes shall be, for people to read.
	NetworkState Place = "network.state"

	PacketFilterTable Place = "packet-filter.table" // the kernel's table as nft reads it
)

// placeSpec is all that the machine must know about a place.
type placeSpec struct {
	path         string
	mode         fs.FileMode
	owner, group string
}

// places is the closed list: what is not in it cannot be written.
var places = map[Place]placeSpec{
	ChronyMain:   {"/etc/chrony/chrony.conf", 0o644, "root", "root"},
	ChronyDropIn: {"/etc/chrony/conf.d/gateway.conf", 0o644, "root", "root"},

	RouteProtocols:    {"/etc/iproute2/rt_protos.d/gateway.conf", 0o644, "root", "root"},
	NetworkState:      {"/var/lib/gateway/network.json", 0o644, "root", "root"},
	PacketFilterTable: {"/var/lib/gateway/packet-filter.nft", 0o600, "root", "root"},
}

// Path tells where the place is on a real gateway; it is empty for a place that is not in the list.
func (p Place) Path() string { return places[p].path }

func (p Place) spec() (placeSpec, error) {
	s, ok := places[p]
	if !ok {
		return placeSpec{}, fmt.Errorf("no place %q in the list", string(p))
	}
	return s, nil
}
