package dns

import (
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Zone is a part of the tree of names that is the house's own: its records are answered here, and all else of it by the
// resolvers that it is forwarded to, if any.
type Zone struct {
	resource.Meta
	Name        value.Host `json:"name" required:"true" doc:"Name of the zone, such as corp.example.net or 10.in-addr.arpa."`
	ForwardTo   []Forward  `json:"forward_to" doc:"Resolvers that know the rest of the zone: addresses, with @port where it is not 53. None: what is not a record here is asked for as any other name."`
	Description value.Line `json:"description" maxLength:"500" doc:"A remark."`
	Active      bool       `json:"active" doc:"Off, the zone and its records are kept and have no effect."`
}

// Label is how people know it.
func (z *Zone) Label() string { return z.Name.String() }

// Record is one answer.
type Record struct {
	resource.Meta
	ZoneID   uuid.UUID `json:"zone_id" required:"true" doc:"Zone that it belongs to."`
	Name     string    `json:"name" maxLength:"254" doc:"Name: @ or nothing is the zone itself; a name that ends with a dot, or with the zone, is taken as it is; to any other the zone is appended."`
	Type     string    `json:"type" required:"true" enum:"A,AAAA,CNAME,TXT,MX,SRV,NS,PTR,CAA" doc:"What kind of answer."`
	Value    string    `json:"value" required:"true" maxLength:"4096" doc:"The answer, in the form of its type."`
	TTL      int       `json:"ttl" minimum:"0" maximum:"2147483647" doc:"Seconds that others may keep it."`
	Priority *int      `json:"priority" minimum:"0" maximum:"65535" doc:"For MX and SRV: lower is tried first. It may stand in the value instead."`
	Weight   *int      `json:"weight" minimum:"0" maximum:"65535" doc:"For SRV: its share among those of one priority. It may stand in the value instead."`
	Port     *int      `json:"port" minimum:"0" maximum:"65535" doc:"For SRV: the port of the service. It may stand in the value instead."`
}

// Label is how people know it.
func (r *Record) Label() string { return r.Name + " " + r.Type }

var (
	zones = resource.Kind[Zone]{
		Name: "dns.zone", Title: "DNS zone", Path: "/dns/zones", Table: "dns_zones", Order: "name", Feeds: feeds[:1], Notes: []string{"description"},
		New: func() Zone { return Zone{Active: true} },
	}
	records = resource.Kind[Record]{
		Name: "dns.record", Title: "DNS record", Path: "/dns/records", Table: "dns_records", Order: "name, type, value", Feeds: feeds[:1],
		New: func() Record { return Record{TTL: 3600} },
	}
)
