package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/test/vm/rig"
)

const (
	packetRules = 10000
	packetZones = 5
	// packetLimit is the time limit of the virtual machine; it takes a minute or two.
	packetLimit = 10 * time.Minute
)

// packetTable is a table of the packet filter, and how many packets of either kind are pushed through it.
type packetTable struct {
	name               string
	content            []byte
	fresh, established int
}

// measurePackets compares the cost of a packet with many rules in the gateway's table, in one flat chain, and with few.
// The clock is that of a virtual machine which counts instructions, so that nothing has to be measured in turns.
func measurePackets(ctx context.Context, _ settings) ([]goal, error) {
	fmt.Println("packets in a virtual machine that counts instructions: pktgen, the router's way from link to link, connection tracking")
	many := policy(packetRules, 0)
	flat, err := flatten(many)
	if err != nil {
		return nil, err
	}
	tables := []packetTable{{"flat", flat, 100, 1000}}
	for _, x := range []struct {
		name   string
		config firewall.Config
		fresh  int
	}{{"last", policy(0, 0), 20000}, {"few", policy(10, 0), 20000}, {"many", many, 5000}, {"any", policy(packetRules, packetRules/10), 2000}} {
		content, err := rendered(x.config)
		if err != nil {
			return nil, err
		}
		tables = append(tables, packetTable{x.name, content, x.fresh, 20000})
	}
	rates, err := pushPackets(ctx, tables)
	if err != nil {
		return nil, err
	}
	compare := func(text, kind, a, b string, bar float64) goal {
		pair := []float64{median(rates[a+" "+kind]), median(rates[b+" "+kind])}
		return goal{text, pair[0] / pair[1], "x", bar, true, perSecond(pair)}
	}
	established := compare("F6 established, 10,000 rules / 10 rules", "established", "many", "few", 0.99)
	established.detail += fmt.Sprintf(" (%.4f)", established.measured)
	return []goal{
		compare("F5 first packet, 10,000 rules / in one flat chain", "new", "many", "flat", 50),
		compare("F5 first packet, 10,000 rules / only the last one", "new", "many", "last", 0.6),
		compare("F5 first packet, 1,000 for any zone / flat chain", "new", "any", "flat", 50),
		compare("   first packet, 1,000 for any zone / only the last", "new", "any", "last", 0),
		established,
	}, nil
}

// pushPackets runs the guest, and answers the rates of each table and kind of packets.
func pushPackets(ctx context.Context, tables []packetTable) (map[string][]float64, error) {
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	guest := filepath.Join(dir, "guest")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "vm", "-trimpath", "-ldflags", "-s -w", "-o", guest, "edge.internal/gateway/test/bench/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the guest: %w: %s", err, out)
	}
	m := rig.Machine{Programs: []string{"/sbin/ip", "/usr/sbin/nft"}, Tests: []string{guest}, Counted: true, Limit: packetLimit}
	for _, t := range tables {
		path := filepath.Join(dir, t.name)
		if err := os.WriteFile(path, t.content, 0o600); err != nil {
			return nil, err
		}
		m.Files = append(m.Files, path)
		m.Arguments = append(m.Arguments, fmt.Sprintf("%s:%d:%d", t.name, t.fresh, t.established))
	}
	rates := map[string][]float64{}
	var said strings.Builder
	r, err := m.Run(ctx, func(_ int, line string) {
		said.WriteString("\n" + line)
		var table, kind string
		var rate float64
		if _, err := fmt.Sscanf(line, "%s %s %g", &table, &kind, &rate); err == nil {
			rates[table+" "+kind] = append(rates[table+" "+kind], rate)
		}
	})
	if err == nil && (r.Exits[0] != 0 || len(rates) != 2*len(tables)) {
		err = errors.New("the guest failed:" + said.String())
	}
	return rates, err
}

func rendered(c firewall.Config) ([]byte, error) {
	files, err := firewall.Render(c)
	if err != nil {
		return nil, err
	}
	return files[0].Content, nil
}

func zone(i int) value.Zone { return value.Must[value.Zone](fmt.Sprintf("z%d", i)) }

// policy is a policy of n random rules over five zones, none of which matches the packets of the guest, and a last
// one that accepts them. Each pair of zones has the same number of rules, in random order; some rules are for any zone on
// one side or both instead.
func policy(n, some int) firewall.Config {
	random := rand.New(rand.NewPCG(1, 2))
	c := firewall.Config{Interfaces: map[value.Zone][]value.IfName{}}
	for i := range packetZones {
		c.Interfaces[zone(i)] = []value.IfName{value.Must[value.IfName](fmt.Sprintf("zone%d", i))}
	}
	for range 100 {
		port := 1024 + random.IntN(60000)
		s := firewall.Service{Protocol: []string{"tcp", "udp"}[random.IntN(2)], PortStart: &port}
		s.ID = id(random)
		c.Services = append(c.Services, s)
	}
	everywhere := value.Must[value.Zone]("any")
	for i, pair := range random.Perm(n) {
		r := firewall.Rule{
			SrcZone: zone(pair % packetZones), DstZone: zone(pair / packetZones % packetZones),
			SrcKind: "cidr", SrcCIDR: network(random), DstKind: "cidr", DstCIDR: network(random),
			ServiceObjectID: &c.Services[random.IntN(len(c.Services))].ID, Action: []string{"accept", "drop"}[random.IntN(2)], Enabled: true,
		}
		if some > 0 && i%(n/some) == 0 {
			switch random.IntN(3) {
			case 0:
				r.SrcZone = everywhere
			case 1:
				r.DstZone = everywhere
			case 2:
				r.SrcZone, r.DstZone = everywhere, everywhere
			}
		}
		r.ID = id(random)
		c.Rules = append(c.Rules, &r)
	}
	accept := firewall.Rule{SrcZone: zone(0), DstZone: zone(1), SrcKind: "any", DstKind: "any", Action: "accept", Enabled: true}
	accept.ID = id(random)
	c.Rules = append(c.Rules, &accept)
	return c
}

func id(random *rand.Rand) (id uuid.UUID) {
	for i := range id {
		id[i] = byte(random.Uint32())
	}
	return id
}

// network is some network within 10.0.0.0/8, in which the guest's addresses are too.
func network(random *rand.Rand) value.Prefix {
	n := random.Uint32()
	p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 12+random.IntN(21))
	return value.Must[value.Prefix](p.Masked().String())
}

// flatten is the table of a policy without the zones' chains: all its rules are in the chain forward, and each matches
// its interfaces itself. Everything else is as in the gateway's table.
func flatten(c firewall.Config) ([]byte, error) {
	whole, err := rendered(c)
	if err != nil {
		return nil, err
	}
	lines := map[string][]byte{} // by id
	for line := range bytes.Lines(whole) {
		if _, tag, found := bytes.Cut(line, []byte(`comment "gid:`)); found {
			lines[string(tag[:36])] = bytes.TrimSpace(line)
		}
	}
	var rules bytes.Buffer
	for _, r := range c.Rules {
		fmt.Fprintf(&rules, "\t\tiifname %q oifname %q %s\n", c.Interfaces[r.SrcZone][0], c.Interfaces[r.DstZone][0], lines[r.ID.String()])
	}
	c.Rules = nil
	bare, err := rendered(c)
	if err != nil {
		return nil, err
	}
	var flat bytes.Buffer
	for line := range bytes.Lines(bare) {
		if bytes.Contains(line, []byte("auto:drop-forward")) {
			flat.Write(rules.Bytes())
		}
		flat.Write(line)
	}
	return flat.Bytes(), nil
}
