package network

import (
	"context"
	"errors"
	"slices"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"github.com/jackc/pgx/v5"
)

// The types of interface. For the links that we create, the kernel's names are the same.
const (
	ethernet  = "ethernet"
	vlan      = "vlan"
	bond      = "bond"
	bridge    = "bridge"
	wireguard = "wireguard"
)

const interfaceTable = "network_interfaces"

// defaultBondMode needs no support by the switch.
const defaultBondMode = "active-backup"

// Interface declares a link of the gateway and its zone.
type Interface struct {
	resource.Meta
	Name        value.IfName   `json:"name" required:"true" doc:"Name of the interface in the system."`
	Type        string         `json:"type" required:"true" enum:"ethernet,vlan,bond,bridge,wireguard" doc:"Type. The gateway creates and removes a VLAN, bond or bridge; an Ethernet port or a tunnel exists independently of it."`
	Role        value.Zone     `json:"role" required:"true" doc:"The zone it belongs to."`
	Parent      value.IfName   `json:"parent" doc:"The interface that carries a VLAN."`
	VLANID      *int           `json:"vlan_id" minimum:"1" maximum:"4094" doc:"VLAN ID on the parent interface."`
	Members     []value.IfName `json:"members" doc:"The interfaces of a bond or a bridge."`
	MTU         *int           `json:"mtu" minimum:"68" maximum:"65535" doc:"Largest packet in bytes (MTU); null keeps the current value."`
	BondMode    *string        `json:"bond_mode" enum:"balance-rr,active-backup,balance-xor,broadcast,802.3ad,balance-tlb,balance-alb" doc:"How a bond uses its members; active-backup unless said otherwise."`
	Description string         `json:"description" maxLength:"500" doc:"What it is for."`
	Active      bool           `json:"active" doc:"Whether it is on. When off, its addresses and routes are removed, and a VLAN, bond or bridge is taken down."`
}

// made reports whether the gateway creates and removes the link.
func (i *Interface) made() bool { return i.Type == vlan || i.Type == bond || i.Type == bridge }

func (i *Interface) Validate() error {
	var c check.List
	c.That(i.Name.String() != "lo", "name", "must not be lo, the loopback interface")
	c.That(i.Role.String() != "any" && i.Role.String() != "self", "role", "must be a zone, which %s is not", i.Role)
	if i.Type == vlan {
		c.That(!i.Parent.IsZero(), "parent", "is required for a VLAN")
		c.That(i.VLANID != nil, "vlan_id", "is required for a VLAN")
	} else {
		c.That(i.Parent.IsZero(), "parent", "must be empty, because only a VLAN has a parent interface")
		c.That(i.VLANID == nil, "vlan_id", "must be empty, because only a VLAN has a VLAN ID")
	}
	if i.Type == bond || i.Type == bridge {
		c.That(len(i.Members) > 0, "members", "must have at least one interface for a %s", i.Type)
	} else {
		c.That(len(i.Members) == 0, "members", "must be empty, because only a bond or a bridge has members")
	}
	c.That(i.Type == bond || i.BondMode == nil, "bond_mode", "must be empty, because only a bond has a mode")
	c.That(i.Parent.IsZero() || i.Parent != i.Name, "parent", "must not be the interface itself")
	for n, member := range i.Members {
		c.That(member != i.Name, "members", "must not contain the interface itself")
		c.That(!slices.Contains(i.Members[:n], member), "members", "contains %s twice", member)
		c.That(member.String() != "lo", "members", "must not contain lo, the loopback interface")
	}
	c.That(i.Parent.String() != "lo", "parent", "must not be lo, the loopback interface")
	return c.Err()
}

func (i *Interface) Label() string { return i.Name.String() }

func (i *Interface) user() resource.User {
	return resource.User{Kind: "network.interface", ID: i.ID, Name: i.Name.String()}
}

func (r *Room) interfaceKind() resource.Kind[Interface] {
	return resource.Kind[Interface]{
		Name: "network.interface", Title: "network interface", Path: "/network-interfaces", Table: interfaceTable, Order: "name", Local: true,
		Feeds: []apply.ID{apply.Network, apply.PacketFilter, apply.DHCP, apply.VRRP},
		New:   func() Interface { return Interface{Active: true} },
		Check: r.checkInterface,
	}
}

// checkInterface checks an interface against the others. Interfaces refer to each other by name, so one that is referred to cannot be
// renamed.
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
			title, bound := "Interface "+was.Name.String(), addresses
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
	if was == nil || was.Role != now.Role {
		if err := inZone(ctx, tx, now.Role); err != nil {
			return err
		}
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

// inZone checks that the zone exists, and prevents its deletion in the meantime.
func inZone(ctx context.Context, tx *db.Tx, zone value.Zone) error {
	err := tx.QueryRow(ctx, `SELECT FROM firewall_zones WHERE name = $1 FOR KEY SHARE`, zone).Scan()
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.Field("role", "Zone %q does not exist.", zone)
	}
	return err
}

// users returns the rows that refer to the interface.
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

// among checks the interface against the other interfaces and the machine's links.
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
		c.That(there(i.Parent), "parent", "Interface %s does not exist.", i.Parent)
		if p := declared[i.Parent]; p != nil {
			c.That(p.Type != wireguard, "parent", "%s is a tunnel, which cannot carry VLANs.", i.Parent)
		}
	}
	for _, name := range i.Members {
		c.That(there(name), "members", "Interface %s does not exist.", name)
		if m := declared[name]; m != nil {
			c.That(m.Type != wireguard && m.Type != bridge, "members", "%s is a %s, which cannot be a member.", name, m.Type)
			carries := slices.ContainsFunc(addresses, func(a Address) bool { return a.InterfaceID == m.ID })
			c.That(!carries, "members", "must not contain %s, which has addresses. Move them to %s first", name, i.Name)
		}
		for _, o := range others {
			c.That(!slices.Contains(o.Members, name), "members", "must not contain %s, which is already a member of %s", name, o.Name)
		}
	}
	for _, o := range others {
		// A member of another link has no addresses: a link that lists it as a member takes it over.
		c.That(!slices.Contains(o.Members, i.Name) || i.Type != wireguard && i.Type != bridge, "type", "must not be %s, because %s is a member of %s", i.Type, i.Name, o.Name)
		c.That(o.Parent != i.Name || i.Type != wireguard, "type", "must not be wireguard, because %s is the parent of %s", i.Name, o.Name)
	}
	declared[i.Name] = i
	if loop(declared, i.Name) {
		field := "members"
		if i.Type == vlan {
			field = "parent"
		}
		c.Add(field, "must not lead back to %s itself", i.Name)
	}
	if err := c.Err(); err != nil {
		return err
	}
	for _, o := range others {
		if i.Type == vlan && o.Type == vlan && o.Parent == i.Parent && *o.VLANID == *i.VLANID {
			return fault.Taken(map[string]string{"vlan_id": "is already taken by " + o.Name.String()})
		}
	}
	return nil
}

// loop reports whether an interface is its own ancestor.
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
