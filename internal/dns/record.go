package dns

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
)

type Record struct {
	resource.Meta
	ZoneID   uuid.UUID `json:"zone_id" required:"true" doc:"Zone that it belongs to."`
	Name     string    `json:"name" maxLength:"254" doc:"Name. Empty or @ is the zone itself. A name that ends with a dot is a full name; it may be outside the zone. A name that ends with the zone is used as it is; to any other name the zone is appended. A name that starts with *. covers the name and all names below it that have no records of their own. It is stored without the zone."`
	Type     string    `json:"type" required:"true" enum:"A,AAAA,CNAME,TXT,MX,SRV,NS,PTR,CAA" doc:"Record type. A name with a CNAME is an alias: it has no other records, and names below it without records are the same alias."`
	Value    string    `json:"value" required:"true" maxLength:"4096" doc:"The answer: an address (A, AAAA), a name (CNAME, NS, PTR), \"10 mail.example.net\" (MX), \"10 5 5060 sip.example.net\" (SRV), '0 issue \"ca.example.net\"' (CAA), or any text (TXT). A name with dots is a full name, a single label gets the zone appended, and @ is the zone itself."`
	TTL      int       `json:"ttl" minimum:"0" maximum:"2147483647" doc:"TTL in seconds."`
	Priority *int      `json:"priority" minimum:"0" maximum:"65535" doc:"For MX and SRV: lower is tried first. You can put it into the value instead."`
	Weight   *int      `json:"weight" minimum:"0" maximum:"65535" doc:"For SRV: share among records with the same priority. You can put it into the value instead."`
	Port     *int      `json:"port" minimum:"0" maximum:"65535" doc:"For SRV: port of the service. You can put it into the value instead."`
}

func (r *Record) Label() string { return r.Name + " " + r.Type }

var records = resource.Kind[Record]{
	Name: "dns.record", Title: "DNS record", Path: "/dns/records", Table: "dns_records", Order: "name, type, value", Feeds: feeds[:1], Natural: []string{"zone_id", "name", "type", "value"},
	New: func() Record { return Record{TTL: 3600} },
	Canonical: func(now *Record, zone string) {
		var name ZoneName
		var ignored check.List // its errors are reported when it is stored
		if name.UnmarshalText([]byte(zone)) == nil {
			now.canonical(&ignored, nil, name)
		}
	},
}

const alias = "CNAME"

// checkRecord normalizes a record, and checks it against existing ones.
func (r *Room) checkRecord(ctx context.Context, tx *db.Tx, was, now *Record) error {
	if now == nil {
		return nil
	}
	zone, err := r.zones.Get(ctx, tx, now.ZoneID)
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.NotFound {
		return fault.Field("zone_id", "This zone does not exist.")
	} else if err != nil {
		return err
	}
	var c check.List
	o := now.canonical(&c, was, zone.Name)
	if err := c.Err(); err != nil {
		return err
	}
	return r.checkBeside(ctx, tx, zone, o, now)
}

// checkBeside checks a record against the others of its name, and against related aliases.
func (r *Room) checkBeside(ctx context.Context, tx *db.Tx, zone *Zone, o owner, now *Record) error {
	both, err := r.at(ctx, tx, o, owner{o.name, !o.wildcard})
	if err != nil {
		return err
	}
	var beside, opposite []Record
	for _, x := range both {
		switch {
		case x.ID == now.ID:
		case strings.HasPrefix(x.Name, "*") == o.wildcard:
			beside = append(beside, x)
		default:
			opposite = append(opposite, x)
		}
	}
	var c check.List
	c.Unique(!slices.ContainsFunc(beside, now.same), "value", "already has this record")
	c.That(len(opposite) == 0, "name", "A wildcard also answers for its parent name, so only one of %s and *.%[1]s can have records.", strings.TrimSuffix(o.name.String(), "."))
	if now.Type != alias {
		c.That(!slices.ContainsFunc(beside, func(x Record) bool { return x.Type == alias }), "name", "is an alias (CNAME), which cannot have other records")
		return c.Err()
	}
	c.That(len(beside) == 0, "type", "must not be CNAME, because the name has other records")
	c.That(o.name.String() != zone.Name.apex(), "type", "must not be CNAME for the zone itself")
	c.That(now.Value != o.name.String(), "value", "must not be the alias itself")
	if err := c.Err(); err != nil {
		return err
	}
	pointing, err := r.records.Where(ctx, tx, "type = 'CNAME' AND value = $1 AND id <> $2", o.name.String(), now.ID)
	if err != nil {
		return err
	}
	c.That(len(pointing) == 0, "type", "must not be CNAME, because other aliases point to this name, and an alias of an alias is not followed")
	target, err := zone.Name.target(now.Value)
	if err != nil {
		return err
	}
	there, err := r.at(ctx, tx, owner{name: target}, owner{target, true})
	if err != nil {
		return err
	}
	c.That(!slices.ContainsFunc(there, func(x Record) bool { return x.Type == alias && x.ID != now.ID }), "value", "is an alias (CNAME) itself. Use the name that it points to")
	return c.Err()
}

// at returns the records of some names in all zones.
func (r *Room) at(ctx context.Context, tx *db.Tx, owners ...owner) ([]Record, error) {
	var zones, names, whole []string
	for _, o := range owners {
		z, n := o.stored()
		zones, names, whole = append(zones, z...), append(names, n...), append(whole, o.String())
	}
	return r.records.Where(ctx, tx, `id IN (
		SELECT r.id FROM unnest($1::text[], $2::text[]) s(zone, name) JOIN dns_zones z ON z.name = s.zone JOIN dns_records r ON r.zone_id = z.id AND r.name = s.name
		UNION ALL SELECT id FROM dns_records WHERE name = ANY($3) AND name LIKE '%.')`, zones, names, whole)
}

// same reports whether two records of one name are equal.
func (r *Record) same(x Record) bool {
	equal := func(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	return r.Type == x.Type && r.Value == x.Value && equal(r.Priority, x.Priority) && equal(r.Weight, x.Weight) && equal(r.Port, x.Port)
}

// numbers returns the fields that a type has before its target.
func (r *Record) numbers() []string {
	return map[string][]string{"MX": numberFields[:1], "SRV": numberFields}[r.Type]
}

var numberFields = []string{"priority", "weight", "port"}

func (r *Record) number(field string) **int {
	return map[string]**int{"priority": &r.Priority, "weight": &r.Weight, "port": &r.Port}[field]
}

// canonical normalizes the name and, by its type, the value for storage, and returns the owner.
func (r *Record) canonical(c *check.List, was *Record, zone ZoneName) owner {
	o, err := zone.owner(r.Name)
	if err != nil {
		c.Add("name", "%v", err)
	} else {
		r.Name = zone.relative(o)
	}
	text := r.split(c, was)
	if c.Has("value") {
		return o
	}
	if value, err := parseValue(r.Type, text, zone); err != nil {
		c.Add("value", "%v", err)
	} else {
		r.Value = value
	}
	return o
}

// split removes the numbers from a value that has them, and returns the rest. They replace those that the row had before.
func (r *Record) split(c *check.List, was *Record) string {
	has := r.numbers()
	given := map[string]int{}
	for _, field := range numberFields {
		p := r.number(field)
		fresh := *p != nil && (was == nil || *was.number(field) == nil || **was.number(field) != **p)
		switch {
		case fresh && !slices.Contains(has, field):
			c.Add(field, "is not for records of type %s", r.Type)
		case fresh:
			given[field] = **p
		case !slices.Contains(has, field):
			*p = nil
		}
	}
	words := strings.Fields(r.Value)
	if len(has) == 0 || len(words) == 1 && !slices.ContainsFunc(has, func(f string) bool { return *r.number(f) == nil }) {
		return r.Value
	}
	if len(words) != len(has)+1 {
		c.Add("value", "must be %s and a name, for example %q, or only the name with the numbers in their own fields", strings.Join(has, ", "),
			map[string]string{"MX": "10 mail.example.net", "SRV": "10 5 5060 sip.example.net"}[r.Type])
		return ""
	}
	for i, field := range has {
		n, err := strconv.ParseUint(words[i], 10, 16)
		if err != nil {
			c.Add("value", "%s must be a number from 0 to 65535.", field)
			return ""
		}
		number := int(n)
		if other, ok := given[field]; ok && other != number {
			c.Add(field, "differs from the one in the value")
		}
		*r.number(field) = &number
	}
	return words[len(has)]
}

// parseValue normalizes the part of a value after its numbers.
func parseValue(kind, text string, zone ZoneName) (string, error) {
	switch kind {
	case "A":
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is4() {
			return "", errors.New("must be an IPv4 address, for example 192.0.2.10")
		}
		return a.String(), nil
	case "AAAA":
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
			return "", errors.New("must be an IPv6 address, for example 2001:db8::10")
		}
		return a.String(), nil
	case "TXT":
		return text, nil
	case "CAA":
		flags, tag, value, err := parseCAA(text)
		return strconv.Itoa(flags) + " " + tag + ` "` + value + `"`, err
	}
	name, err := zone.target(text)
	if err == nil && name.String() == "." && kind != "MX" && kind != "SRV" {
		err = errors.New("must not be the root")
	}
	return name.String(), err
}

// caa matches a flag, one of the known tags, and a value with or without quotes: an unknown tag would be a restriction that nobody obeys.
var caa = regexp.MustCompile(`^(\d{1,3})\s+(?i:(issue|issuewild|issuemail|issuevmc|iodef|contactemail|contactphone))\s+(?:"([ !#-\[\]-~]{0,255})"|([!#-\[\]-~]{1,255}))$`)

func parseCAA(text string) (flags int, tag, value string, err error) {
	m := caa.FindStringSubmatch(strings.TrimSpace(text))
	if m != nil {
		flags, _ = strconv.Atoi(m[1])
	}
	if m == nil || flags > 255 {
		return 0, "", "", errors.New(`must be a number from 0 to 255, a tag such as issue, issuewild or iodef, and a value in quotes, such as '0 issue "ca.example.net"'`)
	}
	return flags, strings.ToLower(m[2]), m[3] + m[4], nil
}
