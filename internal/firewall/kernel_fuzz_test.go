package firewall

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/conf/nft"
	helperguard "edge.internal/gateway/internal/kit/host/helper/guard"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// packetsEach is how many packets each ruleset is tried with.
	packetsEach = 42
	// enough rulesets have something of every kind.
	enough = 100
	// patience is how long the kernel may take with a packet.
	patience = 20 * time.Second
)

// number reads a number from the environment.
func number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// The kernel treats a packet as the evaluator predicts, for all kinds of rules and packets.
func TestKernelAgreesWithEvaluator(t *testing.T) {
	seed, rulesets := number(t, "GATEWAY_FUZZ_SEED", uint64(time.Now().UnixNano())), longtest.Number(t, "GATEWAY_FUZZ_RULESETS", 30, 150)
	t.Logf("GATEWAY_FUZZ_SEED=%d GATEWAY_FUZZ_RULESETS=%d", seed, rulesets)
	w := newWorld(t)
	seen := coverage{}
	varied := 0
	start := time.Now()
	for i := range rulesets {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, uint64(i))), w: w}
		c := m.config()
		rs := compile(c)
		files, err := Render(c)
		if err != nil {
			t.Fatal(err)
		}
		text := string(files[0].Content)
		if err := helperguard.Admit(files[0]); err != nil {
			t.Fatalf("seed %d, ruleset %d: the helper refuses it: %v\n%s", seed, i, err, text)
		}
		if err := loadText(text); err != nil {
			t.Fatalf("seed %d, ruleset %d: nft refuses it: %v\n%s", seed, i, err, text)
		}
		gated := behindGates(text)
		deciders := coverage{}
		for range packetsEach {
			p := m.packet(&rs)
			p.InZone = rs.zoneOf(p.In)
			spared := false
			d := rs.evaluate(p, w.way, func(e event) { spared = spared || e.auto == &autoManagement })
			if difference := w.try(&p, &d); difference != "" {
				t.Fatalf("GATEWAY_FUZZ_SEED=%d, ruleset %d\n%s\npacket: %+v\nevaluator: %s\nkernel: %s", seed, i, text, p, d.summary(), difference)
			}
			seen.note(&p, &d)
			if spared && rs.redirects(p, w.way) {
				seen["nat spared"]++
			}
			if d.By.Rule != nil && gated[d.decider()] {
				seen["rule behind a gate"]++
			}
			deciders[d.decider()]++
		}
		w.tryLoopback(seen, &rs)
		if len(deciders) >= 4 {
			varied++
		}
	}
	t.Logf("%d rulesets, %d packets, %s", rulesets, rulesets*packetsEach, time.Since(start).Round(time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%6d %s", seen[name], name)
	}
	if rulesets >= enough && varied < rulesets*8/10 {
		t.Errorf("only %d of %d rulesets had four deciders or more", varied, rulesets)
	}
	seen.check(t, rulesets)
}

// behindGates lists the comments of the rules in blocks.
func behindGates(text string) map[string]bool {
	gated, block := map[string]bool{}, false
	for line := range strings.Lines(text) {
		if chain, ok := strings.CutPrefix(line, "\tchain "); ok {
			block = strings.HasPrefix(chain, "seg/") && strings.Count(chain, "/") == 4
		}
		if _, comment, ok := strings.Cut(line, ` comment "`); ok && block {
			gated[strings.TrimSuffix(comment, "\"\n")] = true
		}
	}
	return gated
}

// redirects reports whether a NAT rule would take the packet if its port were not the management port.
func (rs *Ruleset) redirects(p Packet, way func(netip.Addr) Way) bool {
	w := &walk{rs: rs, way: way, p: p}
	return slices.ContainsFunc(rs.Destination, func(t Translation) bool {
		return rs.between(&t, p.In, value.IfName{}) && w.missed(&t) == fits
	})
}

// summary formats a decision on a line.
func (d *Decision) summary() string {
	return fmt.Sprintf("%s %s by %s, out %q, rewrites %+v, after NAT %+v", d.Path, d.Verdict, d.decider(), d.Out, d.Rewrites, d.Packet)
}

func (d *Decision) decider() string {
	if d.By.Rule != nil {
		return "gid:" + d.By.Rule.ID.String()
	}
	if d.By.Auto.tag == "" {
		return d.By.Auto.title + " " + d.Path
	}
	return d.By.Auto.tag
}

// expected lists the counters that move if the decision is right.
func (d *Decision) expected(p *Packet) observation {
	moved := observation{"arrived": 1}
	switch by := d.By; {
	case by.Rule != nil:
		moved["gid:"+by.Rule.ID.String()]++
	case by.Auto.tag != "" && by.Auto.tag != autoNeighbours.tag: // those have no counter
		moved[by.Auto.tag]++
	}
	for _, r := range d.Rewrites {
		if r.Rule != nil {
			moved["gid:"+r.Rule.ID.String()]++
		} else {
			moved["auto:tunnel"]++
		}
	}
	switch {
	case d.Verdict == "accept" && d.Path == stageInput:
		moved["in"]++
	case d.Verdict == "accept":
		moved["out:"+d.Out.String()]++
	case d.Verdict == "reject" && !p.isError():
		moved["refused"]++
	}
	return moved
}

// isError reports whether the packet is an ICMP error, which is never answered with another.
func (p *Packet) isError() bool {
	return p.Proto == nft.ICMP && p.ICMPType == 3 || p.Proto == nft.ICMPv6 && p.ICMPType < echoRequest6
}

// try sends a packet, and describes any difference from the decision.
func (w *world) try(p *Packet, d *Decision) (difference string) {
	w.t.Helper()
	w.forget()
	before, want := w.read(), d.expected(p)
	if way := w.way(p.Source); !way.Local && way.Interface == "" {
		delete(want, "refused") // there is no way back
	}
	w.send(p)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		moved := w.read().since(before)
		if d.Verdict == "accept" {
			delete(moved, "refused") // nobody listens on the port
		}
		if maps.Equal(moved, want) {
			break
		}
		if time.Now().After(end) {
			return fmt.Sprintf("moved %v instead of %v", moved, want)
		}
	}
	if d.Verdict != "accept" || !p.tracked() {
		return ""
	}
	from, to, found := w.flow(p)
	after := &d.Packet
	switch {
	case !found:
		return "no connection began"
	case from.Addr() != after.Source || to.Addr() != after.Destination:
		return fmt.Sprintf("the connection is %s to %s", from, to)
	case ported(p.Proto) && to.Port() != after.DestinationPort:
		return fmt.Sprintf("the destination is %s", to)
	case ported(p.Proto) && after.SourcePort != 0 && from.Port() != after.SourcePort:
		return fmt.Sprintf("the source is %s", from)
	}
	if after.SourcePort == 0 && ported(p.Proto) {
		r := d.Rewrites[len(d.Rewrites)-1]
		if from.Port() < r.First || from.Port() > r.Last {
			return fmt.Sprintf("the source is %s", from)
		}
	}
	return ""
}

// tryLoopback makes the gateway talk to itself, which nothing forbids.
func (w *world) tryLoopback(seen coverage, rs *Ruleset) {
	w.t.Helper()
	own := w.links[0].own[0]
	p := Packet{In: loopback, Source: own, Destination: own, Proto: nft.UDP, SourcePort: 9, DestinationPort: 9}
	d := rs.evaluate(p, w.way, nil)
	before := w.read()
	conn, err := net.Dial("udp", own.String()+":9")
	w.ok(err)
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		w.t.Fatal(err)
	}
	if moved := w.read().since(before); moved["in:lo"] == 0 || d.By.Auto == nil || d.By.Auto.tag != autoLoopback.tag || len(d.Rewrites) > 0 {
		w.t.Fatalf("the gateway talks to itself: %v, %s", moved, d.summary())
	}
	seen.note(&p, &d)
}

// coverage counts what was seen, by kind.
type coverage map[string]int

func (c coverage) note(p *Packet, d *Decision) {
	c["family "+p.family().String()]++
	c["protocol "+protoName(p.Proto)]++
	switch by := d.By; {
	case by.Rule != nil:
		c["rule "+d.Path+" "+d.Verdict]++
		c.zones(by.Rule, p)
		for _, a := range []*Addresses{&by.Rule.From, &by.Rule.To} {
			switch f := p.family(); {
			case a.Any:
				c["match any"]++
			case !a.Set[f].IsZero():
				c["match set"]++
			default:
				c["match inline"]++
			}
		}
	case strings.HasPrefix(by.Auto.tag, "auto:opening-"):
		c["automatic opening"]++
	case by.Auto.tag != "":
		c["automatic "+by.Auto.tag+" "+d.Path]++
	default:
		c["default "+d.Path]++
	}
	for _, r := range d.Rewrites {
		c.rewrite(&r)
	}
}

func (c coverage) zones(r *Policy, p *Packet) {
	switch {
	case p.InZone.IsZero():
		c["zone none"]++
	case r.Src == anywhere:
		c["zone any"]++
	default:
		c["zone one"]++
	}
}

func (c coverage) rewrite(r *Rewrite) {
	switch {
	case r.Rule == nil:
		c["nat tunnel"]++
	case r.Rule.Target.Shift != 0:
		c["nat "+r.Kind+" port by port"]++
	case r.Rule.Target.Last != r.Rule.Target.First:
		c["nat "+r.Kind+" range"]++
	case r.Rule.Target.First != 0:
		c["nat "+r.Kind+" port"]++
	default:
		c["nat "+r.Kind]++
	}
}

// check fails if a kind was not seen often enough, so that the test cannot become void.
func (c coverage) check(t *testing.T, rulesets int) {
	t.Helper()
	if rulesets < enough {
		return
	}
	for _, name := range []string{
		"family ipv4", "family ipv6", "protocol tcp", "protocol udp", "protocol icmp", "protocol icmpv6",
		"rule input accept", "rule input drop", "rule input reject", "rule forward accept", "rule forward drop", "rule forward reject",
		"match any", "match set", "match inline", "rule behind a gate", "zone none", "zone any", "zone one",
		"automatic auto:loopback input", "automatic auto:icmpv6 input", "automatic auto:icmpv6 forward", "automatic auto:anti-lockout input", "automatic auto:cluster input",
		"automatic auto:dnat forward", "automatic auto:tunnel forward", "automatic opening", "default input", "default forward", "default unroutable",
		"nat dnat", "nat dnat port", "nat dnat range", "nat dnat port by port", "nat snat", "nat snat port", "nat snat range", "nat masquerade", "nat tunnel", "nat spared",
	} {
		if c[name] < 3 {
			t.Errorf("%q was seen %d times", name, c[name])
		}
	}
}
