// Package value has the parsed types of the configuration: a value of such a type is well-formed and in canonical form.
package value

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgtype"
)

// Grammar parses one kind of text. The error is a sentence for the person who typed it.
type Grammar interface {
	Parse(text string) (canonical string, err error)
	Example() string
}

// Text is a text that follows a grammar. The zero value is the absent text; every other value was parsed.
type Text[G Grammar] struct{ s string }

func (t Text[G]) String() string { return t.s }

func (t Text[G]) IsZero() bool { return t.s == "" }

func (t Text[G]) MarshalText() ([]byte, error) { return []byte(t.s), nil }

// UnmarshalText parses a text. The empty text is the absent one; the field decides whether it may be absent.
func (t *Text[G]) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		t.s = ""
		return nil
	}
	if !utf8.Valid(b) {
		return errors.New("must be valid UTF-8")
	}
	var g G
	s, err := g.Parse(string(b))
	if err != nil {
		return err
	}
	t.s = s
	return nil
}

func (t Text[G]) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: t.s, Valid: true}, nil
}

// ScanText reads what TextValue stored. It does not parse again: lists of thousands are read often.
func (t *Text[G]) ScanText(v pgtype.Text) error {
	t.s = v.String
	return nil
}

// Schema documents the type as a string.
func (t Text[G]) Schema(huma.Registry) *huma.Schema {
	var g G
	return &huma.Schema{Type: huma.TypeString, Examples: []any{g.Example()}}
}

func (t Text[G]) parsed() {}

// Parsed is a value of a type of this package, or of one based on Text: nothing else has its unexported method.
type Parsed interface {
	String() string
	parsed()
}

// Parse parses a value of a text type.
func Parse[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](text string) (T, error) {
	var v T
	if text == "" {
		return v, errors.New("must not be empty")
	}
	err := P(&v).UnmarshalText([]byte(text))
	return v, err
}

// Must is Parse for constants of the program.
func Must[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](text string) T {
	v, err := Parse[T, P](text)
	if err != nil {
		panic(fmt.Sprintf("%s %q: %v", reflect.TypeFor[T](), text, err))
	}
	return v
}

// Types of values. Those that offer more than text have methods below.
type (
	// Host is a host name or an IP address.
	Host struct{ Text[hostGrammar] }
	// DomainName is a host name with at least two labels: the name of a machine in the DNS.
	DomainName struct{ Text[domainGrammar] }
	// SiteName is a full domain name, or *. before one for every name one label below it.
	SiteName struct{ Text[siteNameGrammar] }
	// Addr is an IP address without a zone.
	Addr struct{ Text[addrGrammar] }
	// Prefix is a network in CIDR form, host bits cleared. A bare address becomes a network of one address.
	Prefix struct{ Text[prefixGrammar] }
	// Range is one address, a network, or all addresses from one to another of the same family.
	Range struct{ Text[rangeGrammar] }
	// Zone is the name of a zone of the packet filter.
	Zone struct{ Text[zoneGrammar] }
	// IfName is the name of a network interface.
	IfName struct{ Text[ifNameGrammar] }
	// MAC is a hardware address of six bytes.
	MAC struct{ Text[macGrammar] }
	// Email is an e-mail address without a display name, case preserved.
	Email struct{ Text[emailGrammar] }
	// URL is an absolute https URL.
	URL struct{ Text[urlGrammar] }
	// Line is free text of one line: no control characters.
	Line struct{ Text[lineGrammar] }
)

// Netip returns the parsed address; invalid for the zero Addr.
func (a Addr) Netip() netip.Addr {
	ip, _ := netip.ParseAddr(a.s)
	return ip
}

// Netip returns the parsed network.
func (p Prefix) Netip() netip.Prefix {
	n, _ := netip.ParsePrefix(p.s)
	return n
}

func (r Range) Bounds() (first, last netip.Addr) {
	if from, to, ok := strings.Cut(r.s, "-"); ok {
		first, _ = netip.ParseAddr(from)
		last, _ = netip.ParseAddr(to)
		return first, last
	}
	n, _ := netip.ParsePrefix(r.s)
	return n.Addr(), Last(n)
}

// Last returns the last address of a network.
func Last(n netip.Prefix) netip.Addr {
	b := n.Addr().AsSlice()
	for i := n.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

type (
	hostGrammar     struct{}
	domainGrammar   struct{}
	siteNameGrammar struct{}
	addrGrammar     struct{}
	prefixGrammar   struct{}
	rangeGrammar    struct{}
	zoneGrammar     struct{}
	ifNameGrammar   struct{}
	macGrammar      struct{}
	emailGrammar    struct{}
	urlGrammar      struct{}
	lineGrammar     struct{}
)

func (addrGrammar) Example() string { return "192.0.2.1" }

func (addrGrammar) Parse(s string) (string, error) {
	ip, err := netip.ParseAddr(s)
	// A zone may hold any text, including newlines, and is therefore refused.
	if err != nil || ip.Zone() != "" {
		return "", errors.New("must be an IPv4 or IPv6 address")
	}
	return ip.Unmap().String(), nil
}

func (prefixGrammar) Example() string { return "192.0.2.0/24" }

func (prefixGrammar) Parse(s string) (string, error) {
	if a, err := (addrGrammar{}).Parse(s); err == nil {
		ip := netip.MustParseAddr(a)
		return netip.PrefixFrom(ip, ip.BitLen()).String(), nil
	}
	n, err := netip.ParsePrefix(s)
	if err != nil || n.Addr().Is4In6() {
		return "", errors.New("must be a network, for example 192.0.2.0/24 or 2001:db8::/32, or a single address")
	}
	return n.Masked().String(), nil
}

func (rangeGrammar) Example() string { return "192.0.2.10-192.0.2.20" }

func (rangeGrammar) Parse(s string) (string, error) {
	from, to, ok := strings.Cut(s, "-")
	if !ok {
		return prefixGrammar{}.Parse(s)
	}
	first, err1 := addrGrammar{}.Parse(strings.TrimSpace(from))
	last, err2 := addrGrammar{}.Parse(strings.TrimSpace(to))
	if err1 != nil || err2 != nil {
		return "", errors.New("must be a range of addresses, for example 192.0.2.10-192.0.2.20")
	}
	a, b := netip.MustParseAddr(first), netip.MustParseAddr(last)
	if a.BitLen() != b.BitLen() || b.Less(a) {
		return "", errors.New("must go from a lower to a higher address of the same family")
	}
	return first + "-" + last, nil
}

var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,30}$`)

func (zoneGrammar) Example() string { return "lan" }

func (zoneGrammar) Parse(s string) (string, error) {
	if !zoneName.MatchString(s) {
		return "", errors.New("must be the name of a zone: a letter, then at most 30 letters, digits, hyphens or underscores")
	}
	return s, nil
}

var label = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

func parseName(s string) (labels int, canonical string, ok bool) {
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if name == "" || len(name) > 253 {
		return 0, "", false
	}
	for l := range strings.SplitSeq(name, ".") {
		if !label.MatchString(l) {
			return 0, "", false
		}
		labels++
	}
	return labels, name, true
}

func (hostGrammar) Example() string { return "ntp.example.net" }

func (hostGrammar) Parse(s string) (string, error) {
	if a, err := (addrGrammar{}).Parse(s); err == nil {
		return a, nil
	}
	_, name, ok := parseName(s)
	// Resolvers take a name whose last label is a number for an address.
	if !ok || strings.Trim(name[strings.LastIndexByte(name, '.')+1:], "0123456789") == "" {
		return "", errors.New("must be a host name or an IP address")
	}
	return name, nil
}

func (domainGrammar) Example() string { return "gateway.example.net" }

func (domainGrammar) Parse(s string) (string, error) {
	labels, name, ok := parseName(s)
	if !ok || labels < 2 || strings.Contains(name, "_") || strings.Trim(name[strings.LastIndexByte(name, '.')+1:], "0123456789") == "" {
		return "", errors.New("must be a full domain name, for example gateway.example.net")
	}
	return name, nil
}

func (siteNameGrammar) Example() string { return "www.example.net" }

func (siteNameGrammar) Parse(s string) (string, error) {
	parent, wildcard := strings.CutPrefix(s, "*.")
	name, err := domainGrammar{}.Parse(parent)
	switch {
	case err != nil:
		return "", errors.New("must be a full domain name, for example www.example.net or *.example.net")
	case wildcard:
		return "*." + name, nil
	}
	return name, nil
}

// Wildcard returns the domain below which a wildcard matches.
func (n SiteName) Wildcard() (parent DomainName, ok bool) {
	name, ok := strings.CutPrefix(n.s, "*.")
	if ok {
		parent.s = name
	}
	return parent, ok
}

var ifName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,14}$`)

func (ifNameGrammar) Example() string { return "lan0" }

func (ifNameGrammar) Parse(s string) (string, error) {
	if !ifName.MatchString(s) {
		return "", errors.New("must be an interface name: at most 15 letters, digits, dots, hyphens or underscores")
	}
	return s, nil
}

func (macGrammar) Example() string { return "52:54:00:12:34:56" }

// Parse accepts the common notations: bytes with colons or dashes, groups of four digits with dots, and bare digits.
func (macGrammar) Parse(s string) (string, error) {
	address, err := net.ParseMAC(s)
	if err != nil {
		var bare []byte
		bare, err = hex.DecodeString(s)
		address = bare
	}
	switch {
	case err != nil || len(address) != 6:
		return "", errors.New("must be a MAC address, for example 52:54:00:12:34:56")
	case address[0]&1 == 1:
		return "", errors.New("must be the MAC address of one device, not a multicast address")
	case !slices.ContainsFunc(address, func(b byte) bool { return b != 0 }):
		return "", errors.New("must not be all zeros")
	}
	return address.String(), nil
}

var email = regexp.MustCompile(`^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}$`)

func (emailGrammar) Example() string { return "admin@example.net" }

func (emailGrammar) Parse(s string) (string, error) {
	_, host, _ := strings.Cut(s, "@")
	if _, _, ok := parseName(host); !email.MatchString(s) || !ok {
		return "", errors.New("must be an e-mail address, for example admin@example.net")
	}
	return s, nil
}

var urlForm = regexp.MustCompile(`^https://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~!$&()*+,;=:@%/-]*)?$`)

func (urlGrammar) Example() string { return "https://acme.example.net/directory" }

func (urlGrammar) Parse(s string) (string, error) {
	if len(s) > 2048 || !urlForm.MatchString(s) {
		return "", errors.New("must be an https URL without query or fragment")
	}
	return s, nil
}

func (lineGrammar) Example() string { return "a note" }

func (lineGrammar) Parse(s string) (string, error) {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' }) {
		return "", errors.New("must be one line without control characters")
	}
	return s, nil
}
