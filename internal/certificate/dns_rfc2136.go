package certificate

import (
	"context"
	"fmt"
	"time"

	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/miekg/dns"

	"edge.internal/gateway/internal/kit/clock"
)

// rfc2136 sets records at a name server by dynamic updates signed with a TSIG key.
type rfc2136 struct {
	server, key, algorithm, secret string
	clock                          clock.Clock
}

// Present adds the record and keeps existing ones: a name and the wildcard below it share the place of their records.
func (u *rfc2136) Present(ctx context.Context, domain, _, keyAuth string) error {
	return u.update(ctx, domain, keyAuth, (*dns.Msg).Insert)
}

// CleanUp removes this record only.
func (u *rfc2136) CleanUp(ctx context.Context, domain, _, keyAuth string) error {
	return u.update(ctx, domain, keyAuth, (*dns.Msg).Remove)
}

// Timeout returns how long secondary name servers may take.
func (u *rfc2136) Timeout() (timeout, interval time.Duration) { return 2 * time.Minute, time.Second }

func (u *rfc2136) update(ctx context.Context, domain, keyAuth string, change func(*dns.Msg, []dns.RR)) error {
	info := dns01.GetChallengeInfo(ctx, domain, keyAuth)
	zone, err := dns01.DefaultClient().FindZoneByFqdnCustom(ctx, info.EffectiveFQDN, []string{u.server})
	if err != nil {
		return fmt.Errorf("finding the zone at %s: %w", u.server, err)
	}
	record := &dns.TXT{
		Hdr: dns.RR_Header{Name: info.EffectiveFQDN, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60},
		Txt: []string{info.Value},
	}
	update := new(dns.Msg).SetUpdate(zone)
	change(update, []dns.RR{record})
	update.SetTsig(u.key, u.algorithm, 300, u.clock.Now().Unix())
	client := &dns.Client{Net: "tcp", Timeout: dnsWithin, TsigSecret: map[string]string{u.key: u.secret}}
	answer, _, err := client.ExchangeContext(ctx, update, u.server)
	if err != nil {
		return fmt.Errorf("updating %s at %s: %w", zone, u.server, err)
	}
	if answer.Rcode != dns.RcodeSuccess {
		return fmt.Errorf("%s answers %s to the update of %s: it must let the TSIG key %s change TXT records there", u.server, dns.RcodeToString[answer.Rcode], zone, u.key)
	}
	return nil
}
