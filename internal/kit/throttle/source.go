package throttle

import (
	"net/netip"

	"github.com/google/uuid"
)

// Source is where guesses come from: an address with the networks around it, or a device.
type Source struct{ groups []group } // from the narrowest to the widest

// group is what guesses are counted by. The limits are multiplied by its share.
type group struct {
	name  string
	share int
}

// networks are the groups of an IPv6 address. Whoever has a network may choose any address in it: a host has a /64, a
// customer a /56 or a /48.
var networks = []struct{ bits, share int }{{64, 1}, {56, 4}, {48, 16}}

// Networks are what one party may hold around an address, from the narrowest to the widest: an IPv4 address alone, and
// the /64, /56 and /48 of an IPv6 address. An address that is none is in no network.
func Networks(a netip.Addr) []netip.Prefix {
	a = a.Unmap().WithZone("")
	switch {
	case a.Is4():
		return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
	case a.Is6():
		list := make([]netip.Prefix, len(networks))
		for i, n := range networks {
			list[i] = netip.PrefixFrom(a, n.bits).Masked()
		}
		return list
	}
	return nil
}

// Address is the source of a request from an address.
func Address(a netip.Addr) Source {
	var s Source
	for i, p := range Networks(a) {
		s.groups = append(s.groups, group{p.String(), networks[i].share})
	}
	if s.groups == nil {
		return Anywhere
	}
	return s
}

// Device is the source of a request from a device that has logged in before. It is counted apart from its address.
func Device(id uuid.UUID) Source { return Source{[]group{{"device " + id.String(), 1}}} }

// Anywhere is the one source of guesses that are counted wherever they come from.
var Anywhere = Source{[]group{{"anywhere", 1}}}

func (s Source) name() string { return s.groups[0].name }

// Lane names the widest group of the source: those who share it wait for each other.
func (s Source) Lane() string { return s.groups[len(s.groups)-1].name }
