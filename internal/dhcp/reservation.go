package dhcp

import (
	"context"
	"errors"
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

// Reservation reserves an address for one machine.
type Reservation struct {
	resource.Meta
	SubnetID uuid.UUID  `json:"subnet_id" required:"true" doc:"Subnet that the address is in."`
	MAC      value.MAC  `json:"mac" required:"true" doc:"MAC address of the device, in any common format."`
	IP       value.Addr `json:"ip" required:"true" doc:"Reserved address, inside or outside the range."`
	Hostname Name       `json:"hostname" doc:"Host name to send to the device; empty to send none."`
}

func (r *Reservation) Label() string { return r.MAC.String() + " " + r.IP.String() }

func (r *Reservation) Validate() error {
	var c check.List
	c.That(r.IP.IsZero() || r.IP.Netip().Is4(), "ip", "must be an IPv4 address")
	return c.Err()
}

// Name is the name of a machine or of a domain.
type Name struct{ value.Text[nameGrammar] }

type nameGrammar struct{}

func (nameGrammar) Example() string { return "printer" }

func (nameGrammar) Parse(s string) (string, error) {
	name, err := value.Parse[value.Host](s)
	if _, ip := netip.ParseAddr(name.String()); err != nil || ip == nil || strings.Contains(name.String(), "_") {
		return "", errors.New("must be a name of letters, digits and hyphens, with dots between its parts")
	}
	return name.String(), nil
}

func (r *Room) reservationKind() resource.Kind[Reservation] {
	return resource.Kind[Reservation]{
		Name: "dhcp.reservation", Title: "DHCP reservation", Path: "/dhcp/reservations", Table: "dhcp_reservations", Order: "ip::inet", Feeds: feeds[:1], Natural: []string{"subnet_id", "mac"},
		Check: r.checkReservation,
	}
}

// checkReservation checks a reservation against its subnet and the other reservations there.
func (r *Room) checkReservation(ctx context.Context, tx *db.Tx, was, now *Reservation) error {
	if now == nil {
		return nil
	}
	var c check.List
	subnet, err := r.subnets.Get(ctx, tx, now.SubnetID)
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.NotFound {
		return fault.Field("subnet_id", "This subnet does not exist.")
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
		c.Unique(o.MAC != now.MAC, "mac", "is already reserved as %s in this subnet", o.IP)
		c.Unique(o.IP != now.IP, "ip", "is already reserved for %s", o.MAC)
	}
	if err != nil {
		return err
	}
	return c.Err()
}
