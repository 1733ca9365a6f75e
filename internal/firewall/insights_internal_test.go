package firewall

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/value"
)

// SampleHits runs one round of the sampler.
func (r *Room) SampleHits(ctx context.Context) error {
	if err := r.hits.collect(ctx); err != nil {
		return err
	}
	return r.hits.store(ctx)
}

// large is a configuration with many rules, most of them in one scope, none of which shadows another.
func large(n int) Config {
	lan, wan := value.Must[value.Zone]("lan"), value.Must[value.Zone]("wan")
	c := Config{Interfaces: map[value.Zone][]value.IfName{lan: {value.Must[value.IfName]("lan0")}, wan: {value.Must[value.IfName]("wan0")}}}
	m := &maker{}
	for i := range 40 {
		s := Service{Protocol: "tcp", PortStart: pointer(1000 + i), PortEnd: pointer(1400 - i)}
		s.ID = m.id()
		c.Services = append(c.Services, s)
		g := AddressGroup{}
		g.ID = m.id()
		for j := range 100 {
			o := Address{Kind: kindNetwork, Value: fmt.Sprintf("10.%d.%d.0/25", j, i)}
			o.ID = m.id()
			c.Addresses = append(c.Addresses, o)
			g.Members = append(g.Members, o.ID)
		}
		c.AddressGroups = append(c.AddressGroups, g)
	}
	for i := range n {
		r := &Rule{Name: value.Must[value.Line](fmt.Sprint("rule ", i)), SrcZone: lan, DstZone: wan, SrcKind: selectCIDR, DstKind: selectAny, Action: "accept", Enabled: true,
			SrcCIDR: value.Must[value.Prefix](fmt.Sprintf("10.%d.%d.0/24", i/256%256, i%256)), ServiceObjectID: &c.Services[i%40].ID}
		if i%4 == 0 {
			r.SrcKind, r.SrcCIDR, r.SrcGroupID = selectGroup, value.Prefix{}, &c.AddressGroups[i/4%40].ID
			r.DstKind, r.DstCIDR = selectCIDR, value.Must[value.Prefix](fmt.Sprintf("172.%d.%d.0/24", 16+i/256%16, i%256))
		}
		if i%9 == 0 {
			r.DstZone = anywhere
		}
		r.ID = m.id()
		c.Rules = append(c.Rules, r)
	}
	return c
}

// spent is the CPU time of this thread, so that other load does not count.
func spent(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The insights, computed on every view of the page, must not take longer than a person waits.
func TestInsightsOfManyRulesAreQuick(t *testing.T) {
	c := large(10_000)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := spent(t)
	f := find(c)
	took := spent(t) - start
	t.Logf("%d rules: %s, %d shadowed, %d duplicates, %d empty", len(c.Rules), took, len(f.shadowed), len(f.duplicates), len(f.empty))
	if len(f.shadowed)+len(f.duplicates)+len(f.empty) > 0 {
		t.Errorf("found %+v", f.shadowed)
	}
	if took > 6*time.Second && !raceDetector {
		t.Errorf("comparing %d rules took %s", len(c.Rules), took)
	}
}

// The quick check never misses a rule that covers another, and a rule reported as shadowed never decides.
func TestShadowedRulesNeverDecide(t *testing.T) {
	seed := number(t, "GATEWAY_FUZZ_SEED", uint64(time.Now().UnixNano()))
	t.Logf("GATEWAY_FUZZ_SEED=%d", seed)
	w := paper(t)
	shadowed, decided := 0, 0
	for i := range 60 {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, uint64(i))), w: w}
		c := m.config()
		rs := compile(c)
		found := map[uuid.UUID]uuid.UUID{}
		for _, s := range find(c).shadowed {
			found[s.ID] = s.By[0].ID
		}
		sets := &containment{known: map[[2]*nft.Span]bool{}}
		for b := range rs.Rules {
			inner := outlineOf(rs.Rules[b], b)
			if !inner.live() {
				continue
			}
			var by uuid.UUID
			for a := range rs.Rules[:b] {
				outer := outlineOf(rs.Rules[a], a)
				x, y := rs.Rules[a], rs.Rules[b]
				if outer.live() && (x.Src == anywhere || x.Src == y.Src) && (x.Dst == anywhere || x.Dst == y.Dst) && sets.covers(&outer, &inner) {
					by = x.ID
					break
				}
			}
			if found[rs.Rules[b].ID] != by {
				t.Fatalf("ruleset %d: rule %d is covered by %s and not by %s", i, b, by, found[rs.Rules[b].ID])
			}
		}
		shadowed += len(found)
		for range 300 {
			p := m.packet(&rs)
			p.InZone = rs.zoneOf(p.In)
			if d := rs.evaluate(p, w.way, nil); d.By.Rule != nil {
				decided++
				if by, dead := found[d.By.Rule.ID]; dead {
					t.Fatalf("ruleset %d: rule %s is covered by %s and decides about %+v", i, d.By.Rule.ID, by, p)
				}
			}
		}
	}
	if shadowed < 20 || decided < 500 {
		t.Errorf("%d shadowed rules and %d decisions are too few to tell", shadowed, decided)
	}
}
