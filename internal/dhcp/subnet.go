package dhcp

import (
	"errors"
	"net"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Subnet is a network whose machines get their addresses here.
type Subnet struct {
	resource.Meta
	Interface    value.IfName `json:"interface" required:"true" doc:"Interface of the gateway on that network."`
	CIDR         value.Prefix `json:"cidr" required:"true" doc:"The network."`
	RangeStart   value.Addr   `json:"range_start" required:"true" doc:"First address that is handed out."`
	RangeEnd     value.Addr   `json:"range_end" required:"true" doc:"Last address that is handed out."`
	Gateway      value.Addr   `json:"gateway" doc:"Default gateway of the clients; empty: they get none."`
	DNSServers   []value.Addr `json:"dns_servers" doc:"Resolvers of the clients."`
	NTPServers   []value.Addr `json:"ntp_servers" doc:"Time servers of the clients."`
	DomainName   value.Host   `json:"domain_name" doc:"Domain of the clients."`
	LeaseSeconds *int         `json:"lease_seconds" minimum:"60" maximum:"31536000" doc:"How long a lease lasts here; null: as in the settings."`
	Active       bool         `json:"active" doc:"Off, the subnet is kept and nobody gets an address in it."`
}

// Label is how people know it.
func (s *Subnet) Label() string { return s.CIDR.String() }

// Reservation gives one machine always the same address.
type Reservation struct {
	resource.Meta
	SubnetID uuid.UUID  `json:"subnet_id" required:"true" doc:"Subnet that the address is in."`
	MAC      MAC        `json:"mac" required:"true" doc:"Hardware address of the machine, six bytes in any spelling."`
	IP       value.Addr `json:"ip" required:"true" doc:"The address that it gets."`
	Hostname value.Host `json:"hostname" doc:"Name that it is told; empty: none."`
}

// Label is how people know it.
func (r *Reservation) Label() string { return r.MAC.String() + " " + r.IP.String() }

// MAC is a hardware address of six bytes.
type MAC struct{ value.Text[mac] }

type mac struct{}

func (mac) Example() string { return "52:54:00:12:34:56" }

func (mac) Parse(s string) (string, error) {
	address, err := net.ParseMAC(s)
	if err != nil || len(address) != 6 {
		return "", errors.New("must be a hardware address of six bytes, such as 52:54:00:12:34:56")
	}
	return address.String(), nil
}

var (
	subnets = resource.Kind[Subnet]{
		Name: "dhcp.subnet", Title: "DHCP subnet", Path: "/dhcp/subnets", Table: "dhcp_subnets", Order: "cidr", Feeds: feeds[:1],
		New: func() Subnet { return Subnet{Active: true} },
	}
	reservations = resource.Kind[Reservation]{
		Name: "dhcp.reservation", Title: "DHCP reservation", Path: "/dhcp/reservations", Table: "dhcp_reservations", Order: "ip", Feeds: feeds[:1],
	}
)
