package dhcp

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Reservation gives one machine always the same address.
type Reservation struct {
	resource.Meta
	SubnetID uuid.UUID  `json:"subnet_id" required:"true" doc:"Subnet that the address is in."`
	MAC      MAC        `json:"mac" required:"true" doc:"Hardware address of the machine, six bytes in any spelling."`
	IP       value.Addr `json:"ip" required:"true" doc:"The address that it gets, inside or outside of the range."`
	Hostname Name       `json:"hostname" doc:"Name that it is told; empty: none."`
}

// Label is how people know it.
func (r *Reservation) Label() string { return r.MAC.String() + " " + r.IP.String() }

// Validate says what one reservation can say about itself.
func (r *Reservation) Validate() error {
	var c check.List
	c.That(r.IP.IsZero() || r.IP.Netip().Is4(), "ip", "must be an IPv4 address")
	return c.Err()
}

type (
	// MAC is a hardware address of six bytes.
	MAC struct{ value.Text[macGrammar] }
	// Name is the name of a machine or of a domain.
	Name struct{ value.Text[nameGrammar] }

	macGrammar  struct{}
	nameGrammar struct{}
)

func (macGrammar) Example() string { return "52:54:00:12:34:56" }

// Parse takes the spellings of the trade: bytes with colons or dashes, groups of four with dots, and bare digits.
func (macGrammar) Parse(s string) (string, error) {
	address, err := net.ParseMAC(s)
	if err != nil {
		var bare []byte
		bare, err = hex.DecodeString(s)
		address = bare
	}
	switch {
	case err != nil || len(address) != 6:
		return "", errors.New("must be a hardware address of six bytes, such as 52:54:00:12:34:56")
	case address[0]&1 == 1:
		return "", errors.New("must be the hardware address of one machine, not of a group")
	case !slices.ContainsFunc(address, func(b byte) bool { return b != 0 }):
		return "", errors.New("must not be all zeros")
	}
	return address.String(), nil
}

func (nameGrammar) Example() string { return "printer" }

func (nameGrammar) Parse(s string) (string, error) {
	name, err := value.Parse[value.Host](s)
	if _, ip := netip.ParseAddr(name.String()); err != nil || ip == nil || strings.Contains(name.String(), "_") {
		return "", errors.New("must be a name of letters, digits and dashes, with dots between its parts")
	}
	return name.String(), nil
}

func (r *Room) reservationKind() resource.Kind[Reservation] {
	return resource.Kind[Reservation]{
		Name: "dhcp.reservation", Title: "DHCP reservation", Path: "/dhcp/reservations", Table: "dhcp_reservations", Order: "ip::inet", Feeds: feeds[:1],
		Check: r.checkReservation,
	}
}

// checkReservation looks at a reservation beside its subnet and the others there.
func (r *Room) checkReservation(ctx context.Context, tx *db.Tx, was, now *Reservation) error {
	if now == nil {
		return nil
	}
	var c check.List
	subnet, err := r.subnets.Get(ctx, tx, now.SubnetID)
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.NotFound {
		return fault.Field("subnet_id", "there is no such subnet")
	} else if err != nil {
		return err
	}
	ip := now.IP.Netip()
	subnet.complain(&c, "ip", ip)
	c.That(now.IP != subnet.Gateway, "ip", "must not be the default gateway of the subnet")
	links, err := r.Host.Links(ctx)
	if err != nil {
		return err
	}
	c.That(was != nil && was.IP == now.IP || !slices.Contains(ownAddresses(links), ip), "ip", "must not be the gateway's own address")
	others, err := r.reservations.Where(ctx, tx, "subnet_id = $1 AND (mac = $2 OR ip = $3) AND id <> $4", now.SubnetID, now.MAC, now.IP, now.ID)
	for _, o := range others {
		c.Unique(o.MAC != now.MAC, "mac", "has the reservation of %s in this subnet already", o.IP)
		c.Unique(o.IP != now.IP, "ip", "is reserved for %s already", o.MAC)
	}
	if err != nil {
		return err
	}
	return c.Err()
}
