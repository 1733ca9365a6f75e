package certificate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/lego"
	"github.com/google/uuid"
	"github.com/miekg/dns"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// preflightWithin limits a whole preflight.
const preflightWithin = 45 * time.Second

// Preflight asks whether an order would succeed.
type Preflight struct {
	Names         []value.SiteName `json:"names" required:"true" doc:"Names that the certificate is for."`
	Challenge     string           `json:"challenge" required:"true" enum:"http-01,dns-01" doc:"Domain validation."`
	DNSProviderID *uuid.UUID       `json:"dns_provider_id" doc:"DNS provider that sets the record. If null, the one whose zones fit the name best."`
}

// Validate applies the checks of the certificate.
func (p *Preflight) Validate() error { return p.order().Validate() }

func (p *Preflight) order() *Certificate {
	return &Certificate{Source: sourceACME, Status: statusPending, Names: p.Names, Challenge: p.Challenge, DNSProviderID: p.DNSProviderID, KeyType: keyECDSA}
}

// Finding is what a preflight found about a name.
type Finding struct {
	Name   string `json:"name" doc:"The name; empty if it concerns all."`
	Check  string `json:"check" enum:"acme,directory,account,dns,caa,connection,provider" doc:"What was looked at. acme is whether certificates are ordered at all."`
	OK     bool   `json:"ok" doc:"Whether the check passed, as far as the gateway can tell."`
	Detail string `json:"detail" doc:"What was found, and what to do about it."`
}

// Findings is the result of a preflight.
type Findings struct {
	OK       bool      `json:"ok" doc:"Whether an order should succeed."`
	Findings []Finding `json:"findings" doc:"What was looked at."`
}

func (f *Findings) add(name, check string, ok bool, format string, args ...any) {
	f.Findings = append(f.Findings, Finding{name, check, ok, sentence(printable(fmt.Sprintf(format, args...)))})
	f.OK = f.OK && ok
}

func (r *Room) mountPreflight() {
	httpd.Handle(r.Router, http.MethodPost, "/certificates/preflight", httpd.Write.OnPrimary(),
		tag.Audited("certificate.preflight", "Check whether an order would succeed, without ordering: DNS, CAA, port 80, the certificate authority, and the DNS provider with a record that is set and removed"),
		func(c *httpd.Call, in struct{ Body Preflight }) (Findings, error) {
			ctx, cancel := context.WithTimeout(c, preflightWithin)
			defer cancel()
			order := in.Body.order()
			found := r.preflight(ctx, order)
			return found, r.Audit.Record(c, "certificate.preflight", order.Label(), map[string]any{"ok": found.OK})
		})
}

func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimRight(text[size:], ". ") + "."
}

func (r *Room) preflight(ctx context.Context, order *Certificate) Findings {
	found := Findings{OK: true}
	// If no name server answers, everything else follows from that, so it is reported once.
	silent := r.silence(ctx, order.Names[0].String())
	if silent != nil {
		found.add("", "dns", false, "%v. The other DNS checks were skipped", silent)
	}
	identities := r.preflightAuthority(ctx, &found, order, silent != nil)
	if silent != nil {
		return found
	}
	for _, n := range order.Names {
		r.preflightCAA(ctx, &found, n, identities)
		if order.Challenge == challengeHTTP {
			r.preflightHTTP(ctx, &found, n.String())
		}
	}
	if order.Challenge == challengeDNS {
		r.preflightProvider(ctx, &found, order)
	}
	return found
}

// preflightAuthority checks whether the authority would accept an order, and returns its names in CAA records. If the name servers are
// silent, it does not report that the authority cannot be found.
func (r *Room) preflightAuthority(ctx context.Context, found *Findings, order *Certificate, silent bool) (identities []string) {
	if !r.deps.ACME().Enabled {
		found.add("", "acme", false, "ACME is off, so nothing is ordered. Turn it on under Certificates, ACME")
		return nil
	}
	found.add("", "acme", true, "ACME is on")
	var client *lego.Client
	err := r.safely(func() (err error) {
		client, err = r.login(ctx, r.directory())
		return err
	})
	_, unnamed := errors.AsType[*net.DNSError](err)
	switch {
	case err == nil:
		found.add("", "directory", true, "the certificate authority answers")
		found.add("", "account", true, "%s", accountDetail(client))
		return client.GetServerMetadata().CaaIdentities
	case unnamed && silent:
	case len(problems(err)) > 0:
		found.add("", "directory", true, "the certificate authority answers")
		found.add("", "account", false, "%s", explain(err, order.Challenge).sentence)
	default:
		found.add("", "directory", false, "%s", explain(err, order.Challenge).sentence)
	}
	return nil
}

// silence returns an error if no name server answers, and nil if one does, whatever the answer.
func (r *Room) silence(ctx context.Context, name string) *silent {
	_, err := ask(ctx, r.deps.Resolvers(), strings.TrimPrefix(name, "*."), dns.TypeCAA)
	s, _ := errors.AsType[*silent](err)
	return s
}

func accountDetail(client *lego.Client) string {
	if terms := client.GetServerMetadata().TermsOfService; terms != "" {
		return "an account exists, with accepted terms of service (" + terms + ")"
	}
	return "an account exists"
}

// cheapPreflight makes the checks that cost nothing before the first order, because authorities count failed orders. A missing answer is
// no reason to stop: the authority asks other servers.
func (r *Room) cheapPreflight(ctx context.Context, order *Certificate, identities []string) error {
	for _, n := range order.Names {
		if order.Challenge == challengeHTTP {
			if _, err := r.addresses(ctx, n.String()); errors.Is(err, errNoName) {
				return failed(failedDNS, "%s has no address in DNS: add an A or AAAA record that points to this gateway. Nothing was ordered", n)
			}
		}
		if ok, why, err := r.permitted(ctx, n, identities); err == nil && !ok {
			return failed(failedCAA, "%s. Nothing was ordered for %s", why, n)
		}
	}
	return nil
}

// preflightHTTP checks whether a name resolves to this gateway, and whether port 80 there is its own.
func (r *Room) preflightHTTP(ctx context.Context, found *Findings, name string) {
	list, err := r.addresses(ctx, name)
	switch {
	case errors.Is(err, errNoName):
		found.add(name, "dns", false, "there is no A or AAAA record: add one that points to this gateway")
		return
	case err != nil:
		found.add(name, "dns", false, "%v", err)
		return
	}
	own, err := r.ownAddresses(ctx)
	if err != nil {
		found.add(name, "dns", false, "the addresses of this machine cannot be read: %v", err)
		return
	}
	ours, others := split(list, own)
	switch {
	case len(others) == 0:
		found.add(name, "dns", true, "points to this gateway (%s)", join(ours))
	case len(ours) == 0:
		found.add(name, "dns", true, "points to %s, which is not an address of this gateway. That is correct if a router in front of it forwards port 80", join(others))
	default:
		found.add(name, "dns", false, "points to this gateway (%s) and elsewhere (%s). The certificate authority may use either, so remove the other addresses", join(ours), join(others))
	}
	r.preflightConnection(ctx, found, name, list, len(ours) > 0)
}

func split(list []netip.Addr, own map[netip.Addr]bool) (ours, others []netip.Addr) {
	for _, ip := range list {
		if own[ip] {
			ours = append(ours, ip)
		} else {
			others = append(others, ip)
		}
	}
	return ours, others
}

func join(list []netip.Addr) string {
	texts := make([]string, len(list))
	for i, ip := range list {
		texts[i] = ip.String()
	}
	return strings.Join(texts, ", ")
}

func (r *Room) ownAddresses(ctx context.Context) (map[netip.Addr]bool, error) {
	links, err := r.Host.Links(ctx)
	if err != nil {
		return nil, err
	}
	own := map[netip.Addr]bool{}
	for _, l := range links {
		for _, a := range l.Addrs {
			if ip, err := netip.ParseAddr(a.Local); err == nil {
				own[ip.Unmap().WithZone("")] = true
			}
		}
	}
	return own, nil
}

// preflightConnection requests a token by name, as the authority will.
func (r *Room) preflightConnection(ctx context.Context, found *Findings, name string, at []netip.Addr, ours bool) {
	token, answer := rand.Text(), rand.Text()
	_ = r.responder.Present(ctx, name, token, answer) // neither fails
	defer func() { _ = r.responder.CleanUp(ctx, name, token, answer) }()
	for _, ip := range at {
		got, err := fetch(ctx, name, ip, token)
		switch {
		case err == nil && got == answer:
			continue
		case err == nil:
			found.add(name, "connection", false, "another server answers on port 80 of %s", ip)
		case ours:
			found.add(name, "connection", false, "port 80 of %s does not answer: %s", ip, cause(err))
		default:
			found.add(name, "connection", true, "could not be checked from inside: %s is not an address of this gateway and does not answer from here (%v). Many routers do not allow this from their own network. Check from outside whether port 80 answers", ip, cause(err))
		}
		return
	}
	found.add(name, "connection", true, "this gateway answers on port 80")
}

// fetch requests a token from one address. The request usually goes to the machine itself, so the guard against internal addresses does
// not apply; the result only shows whether the answer is our own.
func fetch(ctx context.Context, name string, ip netip.Addr, token string) (string, error) {
	dialer := &net.Dialer{Timeout: 3 * time.Second}
	client := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, net.JoinHostPort(ip.String(), "80"))
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+name+http01.ChallengePath(token), http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 256))
	return string(b), err
}

// preflightCAA checks whether the domain lets the authority issue.
func (r *Room) preflightCAA(ctx context.Context, found *Findings, n value.SiteName, identities []string) {
	permit, why, err := r.permitted(ctx, n, identities)
	if err != nil {
		found.add(n.String(), "caa", false, "the CAA records cannot be read, so the certificate authority will not issue a certificate: %v", err)
		return
	}
	found.add(n.String(), "caa", permit, "%s", why)
}

// permitted reports whether the CAA records let an authority with these identities issue for a name (RFC 8659).
func (r *Room) permitted(ctx context.Context, n value.SiteName, identities []string) (ok bool, why string, err error) {
	records, at, err := r.caa(ctx, strings.TrimPrefix(n.String(), "*."))
	if err != nil {
		return false, "", err
	}
	allowed := issuers(records, wildcard(n))
	some := slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return a == "" })
	switch {
	case len(records) == 0:
		return true, "there is no CAA record, so every certificate authority may issue", nil
	case allowed == nil:
		return true, fmt.Sprintf("the CAA records of %s do not say who may issue", at), nil
	case len(some) == 0:
		return false, fmt.Sprintf("the CAA records of %s allow no certificate authority. Add one for yours", at), nil
	case len(identities) == 0:
		return true, fmt.Sprintf("the CAA records of %s allow %s, and the certificate authority does not state its own name", at, strings.Join(some, ", ")), nil
	case slices.ContainsFunc(some, func(a string) bool { return slices.Contains(identities, a) }):
		return true, fmt.Sprintf("the CAA records of %s allow this certificate authority", at), nil
	}
	return false, fmt.Sprintf("the CAA records of %s allow only %s. Add one for %s", at, strings.Join(some, ", "), identities[0]), nil
}

// caa returns the records in force for a name: its own, or those of the closest parent that has any.
func (r *Room) caa(ctx context.Context, name string) (records []*dns.CAA, at string, err error) {
	for at = name; ; {
		answer, err := ask(ctx, r.deps.Resolvers(), at, dns.TypeCAA)
		if err != nil && !errors.Is(err, errNoName) {
			return nil, at, err
		}
		for _, rr := range answer {
			if c, ok := rr.(*dns.CAA); ok {
				records = append(records, c)
			}
		}
		_, parent, more := strings.Cut(at, ".")
		if len(records) > 0 || !more {
			return records, at, nil
		}
		at = parent
	}
}

// issuers returns the issuers in CAA records; nil if they do not restrict this kind of certificate. An empty name stands for nobody.
func issuers(records []*dns.CAA, wildcard bool) []string {
	tag := "issue"
	if wildcard && slices.ContainsFunc(records, func(c *dns.CAA) bool { return strings.EqualFold(c.Tag, "issuewild") }) {
		tag = "issuewild"
	}
	var names []string
	for _, c := range records {
		if strings.EqualFold(c.Tag, tag) {
			name, _, _ := strings.Cut(c.Value, ";")
			names = append(names, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	return names
}

// preflightProvider sets and removes a record for each name.
func (r *Room) preflightProvider(ctx context.Context, found *Findings, order *Certificate) {
	s, err := r.solver(ctx, order)
	if err != nil {
		found.add("", "provider", false, "%s", explain(err, challengeDNS).sentence)
		return
	}
	for _, n := range order.Names {
		name, value := strings.TrimPrefix(n.String(), "*."), rand.Text()
		if err := s.Present(ctx, name, "", value); err != nil {
			found.add(n.String(), "provider", false, "%v", err)
			continue
		}
		if err := s.CleanUp(ctx, name, "", value); err != nil {
			found.add(n.String(), "provider", false, "the DNS provider %s set a record, but did not remove it: %s", s.chosen[name].name, withoutBody(err))
			continue
		}
		found.add(n.String(), "provider", true, "the DNS provider %s sets and removes records", s.chosen[name].name)
	}
}
