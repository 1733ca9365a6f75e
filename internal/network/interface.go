package network

import (
	"context"
	"slices"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// The types of interface. The kernel's words for the kinds of link that we make are the same.
const (
	ethernet  = "ethernet"
	vlan      = "vlan"
	bond      = "bond"
	bridge    = "bridge"
	wireguard = "wireguard"
)

// defaultBondMode needs nothing of the switch.
const defaultBondMode = "active-backup"

// Interface declares a link of the gateway and the zone it belongs to.
type Interface struct {
	resource.Meta
	Name        value.IfName   `json:"name" required:"true" doc:"Name of the link in the kernel."`
	Type        string         `json:"type" required:"true" enum:"ethernet,vlan,bond,bridge,wireguard" doc:"What it is. A vlan, bond or bridge is made and removed by the gateway; an ethernet link or a tunnel is there by itself."`
	Role        value.Zone     `json:"role" required:"true" doc:"The zone it belongs to."`
	Parent      value.IfName   `json:"parent" doc:"The link that carries a vlan."`
	VLANID      *int           `json:"vlan_id" minimum:"1" maximum:"4094" doc:"Number of a vlan on its parent."`
	Members     []value.IfName `json:"members" doc:"The links that make up a bond or a bridge."`
	MTU         *int           `json:"mtu" minimum:"68" maximum:"65535" doc:"Largest packet in bytes; null leaves it as it is."`
	BondMode    *string        `json:"bond_mode" enum:"balance-rr,active-backup,balance-xor,broadcast,802.3ad,balance-tlb,balance-alb" doc:"How a bond uses its members; active-backup unless said otherwise."`
	Description string         `json:"description" maxLength:"500" doc:"What it is for."`
	Active      bool           `json:"active" doc:"Whether it takes part. Without it, its addresses and routes are taken away, and what the gateway made is removed."`
}

// made tells whether the gateway makes and removes the link.
func (i *Interface) made() bool { return i.Type == vlan || i.Type == bond || i.Type == bridge }

// Validate says what one interface can say about itself.
func (i *Interface) Validate() error {
	var c check.List
	c.That(i.Name.String() != "lo", "name", "must not be lo, which belongs to the machine itself")
	c.That(i.Role.String() != "any" && i.Role.String() != "self", "role", "must be a zone: %s stands for more than one place", i.Role)
	if i.Type == vlan {
		c.That(!i.Parent.IsZero(), "parent", "is required: a vlan needs the link that carries it")
		c.That(i.VLANID != nil, "vlan_id", "is required for a vlan")
	} else {
		c.That(i.Parent.IsZero(), "parent", "must be empty: only a vlan has a parent")
		c.That(i.VLANID == nil, "vlan_id", "must be empty: only a vlan has a number")
	}
	if i.Type == bond || i.Type == bridge {
		c.That(len(i.Members) > 0, "members", "must have at least one item: a %s is made of other links", i.Type)
	} else {
		c.That(len(i.Members) == 0, "members", "must be empty: only a bond or a bridge has members")
	}
	c.That(i.Type == bond || i.BondMode == nil, "bond_mode", "must be empty: only a bond has a mode")
	c.That(i.Parent.IsZero() || i.Parent != i.Name, "parent", "must be another link than the interface itself")
	for n, member := range i.Members {
		c.That(member != i.Name, "members", "must be other links than the interface itself")
		c.That(!slices.Contains(i.Members[:n], member), "members", "has %s twice", member)
		c.That(member.String() != "lo", "members", "must not have lo, which belongs to the machine itself")
	}
	c.That(i.Parent.String() != "lo", "parent", "must not be lo, which belongs to the machine itself")
	return c.Err()
}

// Label is how people know it.
func (i *Interface) Label() string { return i.Name.String() }

func (i *Interface) user() resource.User {
	return resource.User{Kind: "network.interface", ID: i.ID, Name: i.Name.String()}
}

func (r *Room) interfaceKind() resource.Kind[Interface] {
	return resource.Kind[Interface]{
		Name: "network.interface", Title: "network interface", Path: "/network-interfaces", Table: "network_interfaces", Order: "name", Local: true,
		Feeds: []apply.ID{apply.Network, apply.PacketFilter, apply.DHCP},
		New:   func() Interface { return Interface{Active: true} },
		Check: r.checkInterface,
	}
}

// checkInterface looks at an interface among the others. Names are what they refer to each other by, so that one which is
// named keeps its name.
func (r *Room) checkInterface(ctx context.Context, tx *db.Tx, was, now *Interface) error {
	others, err := r.interfaces.All(ctx, tx)
	if err != nil {
		return err
	}
	addresses, err := r.addresses.All(ctx, tx)
	if err != nil {
		return err
	}
	if was != nil {
		others = slices.DeleteFunc(others, func(i Interface) bool { return i.ID == was.ID })
		if now == nil || was.Name != now.Name {
			routes, err := r.routes.All(ctx, tx)
			if err != nil {
				return err
			}
			title, bound := "the interface "+was.Name.String(), addresses
			if now != nil {
				title, bound = "the name "+was.Name.String(), nil // addresses refer to the id
			}
			if err := resource.InUse(title, was.users(others, bound, routes)); err != nil {
				return err
			}
		}
	}
	if now == nil {
		return nil
	}
	if now.Type == bond && now.BondMode == nil {
		mode := defaultBondMode
		now.BondMode = &mode
	}
	links, err := r.Host.Links(ctx)
	if err != nil {
		return err
	}
	return now.among(others, addresses, links)
}

// users are the rows that refer to the interface.
func (i *Interface) users(others []Interface, addresses []Address, routes []Route) []resource.User {
	var users []resource.User
	for _, o := range others {
		if o.Parent == i.Name || slices.Contains(o.Members, i.Name) {
			users = append(users, o.user())
		}
	}
	for _, a := range addresses {
		if a.InterfaceID == i.ID {
			users = append(users, resource.User{Kind: "network.ip-address", ID: a.ID, Name: a.Label()})
		}
	}
	for _, route := range routes {
		if route.Dev == i.Name {
			users = append(users, resource.User{Kind: "network.route", ID: route.ID, Name: route.Label()})
		}
	}
	return users
}

// among complains about what does not fit together with the other interfaces and the links of the machine.
func (i *Interface) among(others []Interface, addresses []Address, links []host.Link) error {
	var c check.List
	declared := map[value.IfName]*Interface{}
	for n := range others {
		declared[others[n].Name] = &others[n]
	}
	there := func(name value.IfName) bool {
		return declared[name] != nil || slices.ContainsFunc(links, func(l host.Link) bool { return l.Name == name.String() })
	}
	if !i.Parent.IsZero() {
		c.That(there(i.Parent), "parent", "%s is neither declared here nor a link of the machine", i.Parent)
		if p := declared[i.Parent]; p != nil {
			c.That(p.Type != wireguard, "parent", "%s is a tunnel, which carries no vlans", i.Parent)
		}
	}
	for _, name := range i.Members {
		c.That(there(name), "members", "%s is neither declared here nor a link of the machine", name)
		if m := declared[name]; m != nil {
			c.That(m.Type != wireguard && m.Type != bridge, "members", "%s is a %s, which cannot be a member", name, m.Type)
			carries := slices.ContainsFunc(addresses, func(a Address) bool { return a.InterfaceID == m.ID })
			c.That(!carries, "members", "%s carries addresses: move them to %s first", name, i.Name)
		}
		for _, o := range others {
			c.That(!slices.Contains(o.Members, name), "members", "%s is a member of %s already", name, o.Name)
		}
	}
	for _, o := range others {
		// A link that is a member of another carries no addresses: whoever names a member takes it over.
		c.That(!slices.Contains(o.Members, i.Name) || i.Type != wireguard && i.Type != bridge, "type", "must not be %s: %s is a member of %s", i.Type, i.Name, o.Name)
		c.That(o.Parent != i.Name || i.Type != wireguard, "type", "must not be wireguard: %s is the parent of %s", i.Name, o.Name)
	}
	declared[i.Name] = i
	if loop(declared, i.Name) {
		field := "members"
		if i.Type == vlan {
			field = "parent"
		}
		c.Add(field, "leads back to %s itself", i.Name)
	}
	if err := c.Err(); err != nil {
		return err
	}
	for _, o := range others {
		if i.Type == vlan && o.Type == vlan && o.Parent == i.Parent && *o.VLANID == *i.VLANID {
			return fault.Taken(map[string]string{"vlan_id": "is taken already by " + o.Name.String()})
		}
	}
	return nil
}

// loop tells whether an interface is below itself.
func loop(declared map[value.IfName]*Interface, start value.IfName) bool {
	seen := map[value.IfName]bool{}
	var below func(name value.IfName) bool
	below = func(name value.IfName) bool {
		i := declared[name]
		if i == nil || seen[name] {
			return false
		}
		seen[name] = true
		down := i.Members
		if !i.Parent.IsZero() {
			down = append(slices.Clone(down), i.Parent)
		}
		return slices.ContainsFunc(down, func(next value.IfName) bool { return next == start || below(next) })
	}
	return below(start)
}
