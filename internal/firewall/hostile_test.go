package firewall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

// specimen is a configuration with one of each kind.
type specimen struct {
	zone   Zone
	object Address
	group  AddressGroup
	serv   Service
	bundle ServiceGroup
	rule   Rule
	nat    NATRule
	link   value.IfName
	word   string // the service of an opening
}

func newSpecimen() *specimen {
	id := func(n byte) (id uuid.UUID) { id[6], id[8], id[15] = 0x70, 0x80, n; return id }
	s := &specimen{
		zone: Zone{Name: value.Must[value.Zone]("guest")}, object: Address{Name: value.Must[value.Line]("object"), Kind: kindHost, Value: "192.0.2.7"},
		group: AddressGroup{Name: value.Must[value.Line]("group"), Members: []uuid.UUID{id(1)}}, serv: Service{Name: value.Must[value.Line]("service"), Protocol: "tcp", PortStart: pointer(80)},
		bundle: ServiceGroup{Name: value.Must[value.Line]("bundle"), Members: []uuid.UUID{id(3)}},
		rule: Rule{Name: value.Must[value.Line]("rule"), SrcKind: selectGroup, SrcGroupID: pointer(id(2)), DstKind: selectCIDR, DstCIDR: value.Must[value.Prefix]("198.51.100.0/24"),
			ServiceGroupID: pointer(id(4)), Action: "accept", Log: true, Enabled: true},
		nat: NATRule{Name: value.Must[value.Line]("nat"), Kind: natDestination, OutZone: anywhere, Protocol: "tcp", DstPort: pointer(80), DstCIDR: value.Must[value.Prefix]("203.0.113.0/24"),
			TargetAddress: value.Must[value.Addr]("10.9.9.9"), TargetPort: pointer(8080), Enabled: true},
		link: value.Must[value.IfName]("guest0"), word: "ntp",
	}
	s.rule.SrcZone, s.rule.DstZone, s.nat.InZone = s.zone.Name, s.zone.Name, s.zone.Name
	s.object.ID, s.group.ID, s.serv.ID, s.bundle.ID, s.rule.ID, s.nat.ID = id(1), id(2), id(3), id(4), id(5), id(6)
	return s
}

func (s *specimen) config() Config {
	s.rule.SrcZone, s.rule.DstZone, s.nat.InZone = s.zone.Name, s.zone.Name, s.zone.Name
	return Config{
		Interfaces: map[value.Zone][]value.IfName{s.zone.Name: {s.link}}, Addresses: []Address{s.object}, AddressGroups: []AddressGroup{s.group},
		Services: []Service{s.serv}, ServiceGroups: []ServiceGroup{s.bundle}, Rules: []*Rule{&s.rule}, NAT: []NATRule{s.nat},
		Openings: []policy.Opening{{Service: s.word, Proto: policy.UDP, Port: 123, Interfaces: []value.IfName{s.link}}},
		Tunnels:  []policy.Tunnel{{Interface: s.link, Networks: []value.Prefix{value.Must[value.Prefix]("10.8.0.0/24")}}},
	}
}

func (s *specimen) render(t testing.TB) []byte {
	t.Helper()
	files, err := Render(s.config())
	if err != nil {
		t.Fatal(err)
	}
	return files[0].Content
}

// rows lists the rows of the specimen, to decode onto.
func (s *specimen) rows() []any {
	return []any{&s.zone, &s.object, &s.group, &s.serv, &s.bundle, &s.rule, &s.nat}
}

// free lists the free text fields of a row.
func free(row any) (names []string) {
	for _, f := range wire.Fields(reflect.TypeOf(row).Elem()) {
		words := slices.Contains([]string{"kind", "value", "protocol", "action", "src_kind", "dst_kind"}, f.Name)
		switch f.Type {
		case reflect.TypeFor[string](), reflect.TypeFor[value.Line](), reflect.TypeFor[[]value.Line]():
			if !words && !f.ReadOnly {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// Whatever people write into names, comments, notes, labels and descriptions, the table does not change by a byte.
func TestHostileTextsChangeNoRule(t *testing.T) {
	benign := newSpecimen().render(t)
	taken := 0
	one := func(fatalf func(string, ...any), row int, field, text string) {
		s := newSpecimen()
		var given any = text
		if field == "labels" {
			given = []string{text}
		}
		body, err := json.Marshal(map[string]any{field: given})
		if err != nil {
			fatalf("%v", err)
		}
		if _, err := wire.Decode(body, s.rows()[row]); err != nil {
			return
		}
		taken++
		if got := s.render(t); !bytes.Equal(got, benign) {
			fatalf("%T.%s %q changed the table:\n%s", s.rows()[row], field, text, got)
		}
	}
	type place struct {
		row   int
		field string
	}
	var places []place
	for row, x := range newSpecimen().rows() {
		for _, field := range free(x) {
			places = append(places, place{row, field})
			before := taken
			for _, text := range conftest.Corpus {
				one(t.Fatalf, row, field, text)
				one(t.Fatalf, row, field, "x"+text+`" accept comment "`)
			}
			if taken < before+30 {
				t.Errorf("%T.%s took only %d texts", x, field, taken-before)
			}
		}
	}
	if len(places) < 15 {
		t.Fatalf("only %v", places)
	}
	rapid.Check(t, func(r *rapid.T) {
		p := rapid.SampledFrom(places).Draw(r, "place")
		parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(conftest.Corpus), rapid.String()), 1, 3).Draw(r, "parts")
		one(r.Fatalf, p.row, p.field, strings.Join(parts, ""))
	})
	// A name to resolve is only for the resolver.
	named := newSpecimen()
	named.object.Kind, named.object.Value, named.object.Resolved = kindFQDN, "a.example", []value.Addr{value.Must[value.Addr]("192.0.2.7")}
	before := named.render(t)
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom(conftest.Corpus), rapid.StringMatching(`[a-z0-9.-]{1,20}`), rapid.String()).Draw(r, "name")
		body, _ := json.Marshal(map[string]any{"value": text})
		s := *named
		if _, err := wire.Decode(body, &s.object); err != nil {
			return
		}
		if got := s.render(t); !bytes.Equal(got, before) {
			r.Fatalf("the name %q changed the table:\n%s", text, got)
		}
	})
}

// words splits the table into words as nft does for values. Both families count as one, because a value may belong to either.
func words(file []byte) [][]string {
	var lines [][]string
	for line := range strings.Lines(string(file)) {
		line = strings.ReplaceAll(strings.ReplaceAll(line, "ip6", "ip"), "ipv6_addr", "ipv4_addr")
		lines = append(lines, strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '"' }))
	}
	return lines
}

// following returns the word after a keyword.
func following(file []byte, keyword string) string {
	for _, line := range words(file) {
		if i := slices.Index(line, keyword); i >= 0 && i+1 < len(line) {
			return line[i+1]
		}
	}
	return ""
}

// A value in the table is one word of it, wherever it comes from, or it is refused.
func TestHostileValuesStayValues(t *testing.T) {
	// Every field is set through its row, as the API does it.
	field := func(name string, row func(s *specimen) any, prepare func(s *specimen)) func(text string) (*specimen, error) {
		return func(text string) (*specimen, error) {
			s := newSpecimen()
			if prepare != nil {
				prepare(s)
			}
			body, err := json.Marshal(map[string]any{name: text})
			if err != nil {
				return nil, err
			}
			_, err = wire.Decode(body, row(s))
			return s, err
		}
	}
	object := func(s *specimen) any { return &s.object }
	for _, x := range []struct {
		name, benign string
		take         func(text string) (*specimen, error)
		word         func(s *specimen, file []byte) string
	}{
		{"a zone", "guest", field("name", func(s *specimen) any { return &s.zone }, nil), func(s *specimen, _ []byte) string { return s.zone.Name.String() }},
		{"a host", "192.0.2.7", field("value", object, nil), func(_ *specimen, f []byte) string { return following(f, "saddr") }},
		{"a network", "192.0.2.0/25", field("value", object, func(s *specimen) { s.object.Kind = kindNetwork }), func(_ *specimen, f []byte) string { return following(f, "saddr") }},
		{"a range", "192.0.2.3-192.0.2.8", field("value", object, func(s *specimen) { s.object.Kind = kindRange }), func(_ *specimen, f []byte) string { return following(f, "saddr") }},
		{"the target of NAT", "10.9.9.9", field("target_address", func(s *specimen) any { return &s.nat }, nil), func(_ *specimen, f []byte) string { return following(f, "to") }},
		{"the destination of NAT", "203.0.113.0/24", field("dst_cidr", func(s *specimen) any { return &s.nat }, nil), func(s *specimen, _ []byte) string { return bare(s.nat.DstCIDR) }},
		{"the destination of a rule", "198.51.100.0/24", field("dst_cidr", func(s *specimen) any { return &s.rule }, nil), func(s *specimen, _ []byte) string { return bare(s.rule.DstCIDR) }},
		{"an interface", "guest0", func(text string) (*specimen, error) {
			s := newSpecimen()
			var err error
			s.link, err = value.Parse[value.IfName](text)
			if err == nil && s.link.IsZero() {
				err = fmt.Errorf("empty")
			}
			return s, err
		}, func(s *specimen, _ []byte) string { return s.link.String() }},
		{"the service of an opening", "ntp", func(text string) (*specimen, error) {
			s := newSpecimen()
			s.word = text
			return s, nil
		}, func(_ *specimen, f []byte) string { return following(opened(f), "auto:opening-") }},
	} {
		t.Run(x.name, func(t *testing.T) {
			conftest.Oracle[*specimen]{
				Place: nftables.Table, Benign: x.benign,
				Decode: func(text string) (*specimen, string, error) {
					s, err := x.take(text)
					if err != nil {
						return nil, "", err
					}
					if text == "" {
						return nil, "", fmt.Errorf("no value")
					}
					// Values of both families in one rule leave nothing to compare.
					if strings.Contains(text, ":") && x.name != "the service of an opening" {
						return nil, "", fmt.Errorf("of the other family")
					}
					return s, x.word(s, s.render(t)), nil
				},
				Render: func(s *specimen) ([]byte, error) { return s.render(t), nil },
				Parse: func(file []byte) [][]string {
					switch x.name {
					case "a zone":
						file = bytes.ReplaceAll(file, []byte("/"), []byte(" "))
					case "the service of an opening":
						file = opened(file)
					}
					return words(file)
				},
				Daemon: func(t testing.TB, file []byte) {
					if err := loadText(string(file)); err != nil {
						t.Fatalf("nft refuses it: %v\n%s", err, file)
					}
				},
			}.Check(t)
		})
	}
	_ = loadText("flush ruleset")
}

// opened separates a room's word in a comment, which may be empty, into a word of its own.
func opened(file []byte) []byte { return openings.ReplaceAll(file, []byte("auto:opening- word:$1")) }

var openings = regexp.MustCompile(`auto:opening-([^"]*)`)

// bare formats a network for nft: a single address has no length.
func bare(p value.Prefix) string {
	if n := p.Netip(); n.IsSingleIP() {
		return n.Addr().String()
	}
	return p.String()
}
