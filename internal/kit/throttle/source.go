package throttle

import (
	"net/netip"

	"github.com/google/uuid"
)

// Source is where guesses come from: an address with the networks around it, or a device.
type Source struct{ groups []group } // narrowest first

// group is the unit in which guesses are counted. The limits are multiplied by its share.
type group struct {
	name  string
	share int
}

// networks are the groups of an IPv6 address. The holder of a network may use any address in it: a host has a /64, a customer a
// /56 or a /48.
var networks = []struct{ bits, share int }{{64, 1}, {56, 4}, {48, 16}}

// Networks returns the networks around an address that one party may hold, narrowest first: an IPv4 address alone, or the /64,
// /56 and /48 of an IPv6 address. An invalid address has none.
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

// Device returns the source for requests from a device that has logged in before. It is counted separately from its address.
func Device(id uuid.UUID) Source { return Source{[]group{{"device " + id.String(), 1}}} }

// Anywhere is the source of guesses that are counted together, wherever they come from.
var Anywhere = Source{[]group{{"anywhere", 1}}}

func (s Source) name() string { return s.groups[0].name }

// Lane returns the name of the widest group of the source: callers who share it queue behind each other.
func (s Source) Lane() string { return s.groups[len(s.groups)-1].name }
