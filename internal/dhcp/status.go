package dhcp

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/httpd"
)

// Lease is an address that a machine has now.
type Lease struct {
	IP            string     `json:"ip" doc:"The address."`
	MAC           string     `json:"mac" doc:"Hardware address of the machine."`
	Hostname      string     `json:"hostname" doc:"What the machine calls itself; empty when it does not say."`
	SubnetID      uuid.UUID  `json:"subnet_id" doc:"Subnet that the address is in."`
	ReservationID *uuid.UUID `json:"reservation_id" doc:"Reservation that it has the address by; null when it has it from the range."`
	State         string     `json:"state" enum:"active,declined,expired" doc:"Whether it is in use; declined: a client found it in use by somebody else."`
	StartsAt      time.Time  `json:"starts_at" doc:"When it was given or last renewed."`
	ExpiresAt     time.Time  `json:"expires_at" doc:"When it ends unless it is renewed."`
}

// Usage is how full a subnet is.
type Usage struct {
	SubnetID uuid.UUID `json:"subnet_id" doc:"Which subnet."`
	Size     int64     `json:"size" doc:"Addresses in its range."`
	Leased   int64     `json:"leased" doc:"Addresses of the range that are in use."`
	Declined int64     `json:"declined" doc:"Addresses that somebody uses without a lease."`
}

// Leases are the addresses that machines have now.
type Leases struct {
	Leases []Lease `json:"leases" doc:"Those that match, by address."`
	Usage  []Usage `json:"usage" doc:"How full each active subnet is."`
	Error  string  `json:"error" doc:"Why the server could not be asked; empty when it could."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/dhcp/leases", httpd.Read, httpd.Doc{ID: "dhcp.leases", Tag: "dhcp", Summary: "The addresses that machines have now"},
		func(_ *httpd.Call, _ struct {
			Search string `query:"search" maxLength:"120" doc:"Part of an address, hardware address or name; case does not matter."`
		}) (Leases, error) {
			return Leases{Leases: []Lease{}, Usage: []Usage{}}, nil
		})
}
