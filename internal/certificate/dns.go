package certificate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/miekg/dns"
)

// dnsWithin limits one query to a name server.
const dnsWithin = 5 * time.Second

// systemResolvers returns the name servers of the machine.
func systemResolvers() []string {
	config, err := dns.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil || len(config.Servers) == 0 {
		return []string{"127.0.0.1:53"} // like the C library
	}
	list := make([]string, len(config.Servers))
	for i, s := range config.Servers {
		list[i] = net.JoinHostPort(s, config.Port)
	}
	return list
}

// errNoName means that the DNS has answered that the name, or a record of this type, does not exist.
var errNoName = errors.New("the name does not exist in DNS")

// ask queries the name servers in turn until one answers.
func ask(ctx context.Context, servers []string, name string, kind uint16) ([]dns.RR, error) {
	question := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
	question.SetEdns0(1232, false)
	var failures []error
	answered := false
	for _, server := range servers {
		answer, err := exchange(ctx, question, server)
		answered = answered || err == nil
		switch {
		case err != nil:
			failures = append(failures, err)
		case answer.Rcode == dns.RcodeSuccess:
			return answer.Answer, nil
		case answer.Rcode == dns.RcodeNameError:
			return nil, errNoName
		default:
			failures = append(failures, fmt.Errorf("%s answers %s", server, dns.RcodeToString[answer.Rcode]))
		}
	}
	if !answered && len(failures) > 0 {
		return nil, &silent{servers, failures[0]}
	}
	return nil, errors.Join(failures...)
}

// silent is the error if none of the name servers answers.
type silent struct {
	servers []string
	why     error
}

func (s *silent) Error() string {
	return fmt.Sprintf("no name server answers (%s): %s", strings.Join(s.servers, ", "), cause(s.why))
}

func (s *silent) Unwrap() error { return s.why }

// cause returns the root of a network error, without the addresses around it.
func cause(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "it takes too long"
	}
	return err.Error()
}

func exchange(ctx context.Context, question *dns.Msg, server string) (*dns.Msg, error) {
	client := &dns.Client{Timeout: dnsWithin}
	answer, _, err := client.ExchangeContext(ctx, question, server)
	if err == nil && answer.Truncated {
		client.Net = "tcp"
		answer, _, err = client.ExchangeContext(ctx, question, server)
	}
	return answer, err
}

func (r *Room) addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	var list []netip.Addr
	var failures []error
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		answer, err := ask(ctx, r.deps.Resolvers(), name, kind)
		if err != nil && !errors.Is(err, errNoName) {
			failures = append(failures, err)
		}
		for _, rr := range answer {
			switch a := rr.(type) {
			case *dns.A:
				if ip, ok := netip.AddrFromSlice(a.A.To4()); ok {
					list = append(list, ip)
				}
			case *dns.AAAA:
				if ip, ok := netip.AddrFromSlice(a.AAAA.To16()); ok {
					list = append(list, ip)
				}
			}
		}
	}
	switch {
	case len(list) > 0:
		return list, nil
	case len(failures) > 0:
		return nil, errors.Join(failures...)
	}
	return nil, errNoName
}

// solver sets the records of an order, each at the provider that serves its zone.
type solver struct {
	room   *Room
	chosen map[string]*setter // by name, without the *. of a wildcard
}

type setter struct {
	challenge.Provider
	name string
	// server is the primary name server of the zones, if known.
	server string
}

// solver chooses the providers for an order. An order that needs no records has none.
func (r *Room) solver(ctx context.Context, row *Certificate) (*solver, error) {
	s := &solver{room: r, chosen: map[string]*setter{}}
	if row.Challenge != challengeDNS {
		return s, nil
	}
	// The library caches the resolvers from when the program started.
	dns01.SetDefaultClient(dns01.NewClient(&dns01.Options{RecursiveNameservers: r.deps.Resolvers(), Timeout: dnsWithin}))
	providers, err := r.providers.All(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	if row.DNSProviderID != nil {
		providers = slices.DeleteFunc(providers, func(p DNSProvider) bool { return p.ID != *row.DNSProviderID })
	}
	for _, n := range row.Names {
		name := strings.TrimPrefix(n.String(), "*.")
		record := strings.TrimSuffix(dns01.GetChallengeInfo(ctx, name, "").EffectiveFQDN, ".")
		p := choose(providers, record)
		if p == nil && row.DNSProviderID != nil {
			return nil, failed(failedDNS, "the DNS provider of this certificate does not serve the zone of %s: add the zone to it, or choose another", record)
		}
		if p == nil {
			return nil, failed(failedDNS, "no DNS provider serves the zone of %s, where a record must prove control of %s: add one under DNS providers", record, n)
		}
		if s.chosen[name], err = r.setter(p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// choose returns the provider whose zone matches a record most closely.
func choose(providers []DNSProvider, record string) *DNSProvider {
	var best *DNSProvider
	longest := -1
	for i := range providers {
		if n := serves(&providers[i], record); n > longest {
			best, longest = &providers[i], n
		}
	}
	return best
}

// serves returns the length of the provider's zone that contains a name; -1 if none does.
func serves(p *DNSProvider, name string) int {
	if len(p.Zones) == 0 {
		return 0
	}
	longest := -1
	for _, z := range p.Zones {
		if zone := z.String(); name == zone || strings.HasSuffix(name, "."+zone) {
			longest = max(longest, len(zone))
		}
	}
	return longest
}

func (s *solver) Present(ctx context.Context, domain, token, keyAuth string) error {
	p := s.chosen[domain]
	if err := p.Present(ctx, domain, token, keyAuth); err != nil {
		return failed(failedDNS, "the DNS provider %s did not set the record for %s: %s", p.name, domain, withoutBody(err))
	}
	return nil
}

// CleanUp removes the record of a name, even if the order was given up in the meantime.
func (s *solver) CleanUp(ctx context.Context, domain, token, keyAuth string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	return s.chosen[domain].CleanUp(ctx, domain, token, keyAuth)
}

// Timeout returns how long to wait for the name servers and how often to ask them, according to the slowest provider.
func (s *solver) Timeout() (timeout, interval time.Duration) {
	timeout, interval = dns01.DefaultPropagationTimeout, time.Second
	for _, p := range s.chosen {
		if t, ok := p.Provider.(challenge.ProviderTimeout); ok {
			within, every := t.Timeout()
			timeout, interval = max(timeout, within), max(interval, every)
		}
	}
	return timeout, interval
}

// propagated reports whether every answering name server of the zone has the record. It asks them instead of a resolver, which would
// cache the missing record.
func (s *solver) propagated(ctx context.Context, domain, fqdn, value string, _ dns01.PreCheckFunc) (bool, error) {
	if ctx.Err() != nil {
		return true, ctx.Err()
	}
	primary := s.chosen[strings.TrimPrefix(domain, "*.")].server
	servers, err := s.room.nameServers(ctx, fqdn, primary)
	if len(servers) == 0 {
		return false, failed(failedDNS, "the name servers of %s cannot be found: %v", fqdn, err)
	}
	answered := 0
	for _, server := range servers {
		records, err := ask(ctx, []string{server}, fqdn, dns.TypeTXT)
		if err != nil && !errors.Is(err, errNoName) {
			continue
		}
		answered++
		if !slices.ContainsFunc(records, func(rr dns.RR) bool {
			txt, ok := rr.(*dns.TXT)
			return ok && strings.Join(txt.Txt, "") == value
		}) {
			return false, failed(failedDNS, "the record %s was set, but the name server %s does not show it", fqdn, server)
		}
	}
	if answered == 0 {
		return false, failed(failedDNS, "the record %s was set, but no name server of the zone answers", fqdn)
	}
	return true, nil
}

// nameServers returns the addresses of the name servers of a record's zone, the primary first if it is known. It looks them up at the
// primary, or else at the machine's resolvers.
func (r *Room) nameServers(ctx context.Context, fqdn, primary string) ([]string, error) {
	resolvers, list := r.deps.Resolvers(), []string(nil)
	if primary != "" {
		resolvers, list = []string{primary}, []string{primary}
	}
	zone, err := dns01.DefaultClient().FindZoneByFqdnCustom(ctx, fqdn, resolvers)
	if err != nil {
		return list, err
	}
	records, err := ask(ctx, resolvers, zone, dns.TypeNS)
	if err != nil {
		return list, err
	}
	for _, rr := range records {
		ns, ok := rr.(*dns.NS)
		if !ok {
			continue
		}
		found, err := r.addresses(ctx, ns.Ns)
		if err != nil {
			continue // a name server without an address cannot answer
		}
		for _, ip := range found {
			if server := net.JoinHostPort(ip.String(), "53"); !slices.Contains(list, server) {
				list = append(list, server)
			}
		}
	}
	return list, nil
}
