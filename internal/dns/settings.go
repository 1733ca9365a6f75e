package dns

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Settings say which resolvers to ask, which clients to answer, and where to listen.
type Settings struct {
	resource.Meta
	UpstreamForwards  []Forward      `json:"upstream_forwards" doc:"Resolvers for all names without a zone: addresses, with @port if it is not 53. If empty, names are resolved directly from the root servers."`
	AccessACL         []value.Prefix `json:"access_acl" doc:"Networks that may ask; if empty, only the gateway itself."`
	ListenAddresses   []value.Addr   `json:"listen_addresses" doc:"Addresses to answer on besides 127.0.0.1; if empty, loopback only. 0.0.0.0 or :: means all addresses of both families."`
	CacheMinTTL       int            `json:"cache_min_ttl" minimum:"0" maximum:"86400" doc:"Minimum TTL of cached answers, in seconds."`
	CacheMaxTTL       int            `json:"cache_max_ttl" minimum:"0" maximum:"604800" doc:"Maximum TTL of cached answers, in seconds."`
	DNSSECValidation  bool           `json:"dnssec_validation" doc:"Refuse answers with wrong signatures."`
	QNAMEMinimisation bool           `json:"qname_minimisation" doc:"Send each name server only the part of a name that it needs."`
}

func (s *Settings) Label() string { return "DNS settings" }

func (s *Settings) Validate() error {
	var c check.List
	c.That(s.CacheMaxTTL >= s.CacheMinTTL, "cache_max_ttl", "must not be less than cache_min_ttl")
	s.checkForwards(&c, "upstream_forwards", s.UpstreamForwards)
	return c.Err()
}

var settings = resource.Singleton[Settings]{
	Name: "dns.settings", Title: "DNS settings", Path: "/dns/settings", Table: "dns_settings", Feeds: feeds, Local: true,
}

const port = 53

// checkForwards refuses resolvers that are this one, which would ask itself endlessly.
func (s *Settings) checkForwards(c *check.List, field string, list []Forward) {
	for _, f := range list {
		address, asked := f.parts()
		own := address == netip.MustParseAddr(self) || address == netip.IPv6Loopback() ||
			slices.ContainsFunc(s.ListenAddresses, func(a value.Addr) bool { return a.Netip() == address })
		c.That(!own || asked != port, field, "must not contain %s, which is this resolver itself", f)
	}
}

// everywhere reports whether it answers on every address.
func (s *Settings) everywhere() bool {
	return slices.ContainsFunc(s.ListenAddresses, func(a value.Addr) bool { return a.Netip().IsUnspecified() })
}

func (s *Settings) openings() []policy.Opening {
	reachable := policy.Reachable(s.ListenAddresses)
	switch {
	case len(reachable) == 0:
		return nil
	case s.everywhere():
		reachable = nil
	}
	return []policy.Opening{
		{Service: "dns", Proto: policy.TCP, Port: port, Addresses: reachable},
		{Service: "dns", Proto: policy.UDP, Port: port, Addresses: reachable},
	}
}

// Forward is a resolver to ask: an address, with @port if it is not 53.
type Forward struct{ value.Text[forward] }

type forward struct{}

func (forward) Example() string { return "9.9.9.9@53" }

func (forward) Parse(s string) (string, error) {
	complaint := errors.New("must be an IP address, with @port if it is not 53, for example 9.9.9.9 or 192.0.2.1@5353")
	text, after, hasPort := strings.Cut(s, "@")
	address, err := value.Parse[value.Addr](text)
	if err != nil || address.Netip().IsUnspecified() || address.Netip().IsMulticast() {
		return "", complaint
	}
	if !hasPort {
		return address.String(), nil
	}
	n, err := strconv.ParseUint(after, 10, 16)
	if err != nil || n == 0 || after != strconv.FormatUint(n, 10) {
		return "", complaint
	}
	return address.String() + "@" + after, nil
}

func (f Forward) parts() (address netip.Addr, asked int) {
	text, after, hasPort := strings.Cut(f.String(), "@")
	address, _ = netip.ParseAddr(text)
	if asked = port; hasPort {
		asked, _ = strconv.Atoi(after)
	}
	return address, asked
}

// loopback reports whether the resolver is on the gateway itself.
func (f Forward) loopback() bool {
	address, _ := f.parts()
	return address.IsLoopback()
}
