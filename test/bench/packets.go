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
	"strconv"
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
	// filterPackets is the limit of the virtual machine, which nobody waits for.
	packetLimit = 10 * time.Minute
)

// packetTable is a table of the packet filter and how many packets are pushed through it: so many that it takes a
// second of the machine's clock or so.
type packetTable struct {
	file               string
	content            []byte
	fresh, established int
}

// measurePackets compares what a packet costs with many rules in the gateway's table, in one flat chain, and with few.
// The clock is that of a virtual machine which counts instructions, so that nothing is measured in turns.
func measurePackets(ctx context.Context, _ settings) ([]goal, error) {
	fmt.Println("packets in a virtual machine that counts instructions")
	many, some, few, last := policy(packetRules, 0), policy(packetRules, packetRules/10), policy(10, 0), policy(0, 0)
	flat, err := flatten(many)
	if err != nil {
		return nil, err
	}
	tables := []packetTable{
		{"last.nft", nil, 20000, 20000}, {"few.nft", nil, 20000, 20000}, {"many.nft", nil, 5000, 20000},
		{"any.nft", nil, 2000, 20000}, {"flat.nft", flat, 100, 20000},
	}
	for i, c := range []firewall.Config{last, few, many, some} {
		if tables[i].content, err = rendered(c); err != nil {
			return nil, err
		}
	}
	rates, err := pushPackets(ctx, tables)
	if err != nil {
		return nil, err
	}
	fresh := func(file string) float64 { return median(rates[file+" new"]) }
	known := func(file string) float64 { return median(rates[file+" established"]) }
	return []goal{
		{"F5 first packet of a flow, 10,000 rules / one flat chain", fresh("many.nft") / fresh("flat.nft"), "x", 50, true, perSecond([]float64{fresh("many.nft"), fresh("flat.nft")})},
		{"   first packet, 10,000 rules / only the last", fresh("many.nft") / fresh("last.nft"), "x", 0, true, perSecond([]float64{fresh("many.nft"), fresh("last.nft")})},
		{"   first packet, a tenth for any zone / one flat chain", fresh("any.nft") / fresh("flat.nft"), "x", 0, true, perSecond([]float64{fresh("any.nft"), fresh("flat.nft")})},
		{"F6 established, 10,000 rules / 10 rules", known("many.nft") / known("few.nft"), "x", 0.99, true, perSecond([]float64{known("many.nft"), known("few.nft")})},
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
	m := rig.Machine{Kernel: ".cache/vm/kernel", Programs: []string{"/sbin/ip", "/usr/sbin/nft"}, Tests: []string{guest}, Counted: true, Limit: packetLimit}
	for _, t := range tables {
		path := filepath.Join(dir, t.file)
		if err := os.WriteFile(path, t.content, 0o600); err != nil {
			return nil, err
		}
		m.Files = append(m.Files, path)
		m.Arguments = append(m.Arguments, fmt.Sprintf("%s:%d:%d", t.file, t.fresh, t.established))
	}
	rates := map[string][]float64{}
	var said []string
	start := time.Now()
	r, err := m.Run(ctx, func(_ int, line string) {
		fmt.Printf("%6.1f s  %s\n", time.Since(start).Seconds(), line)
		words := strings.Fields(line)
		said = append(said, line)
		if len(words) == 3 {
			if rate, err := strconv.ParseFloat(words[2], 64); err == nil {
				key := words[0] + " " + words[1]
				rates[key] = append(rates[key], rate)
			}
		}
	})
	if err == nil && (r.Exits[0] != 0 || len(rates) != 2*len(tables)) {
		err = errors.New("the guest failed: " + strings.Join(said, "\n"))
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

// policy is a policy of n arbitrary rules over five zones, none of which matches the packets of the guest, and a last
// one that accepts them. Each pair of zones has as many rules as any other; any of them are for any zone instead.
func policy(n, any int) firewall.Config {
	random := rand.New(rand.NewPCG(1, 2))
	c := firewall.Config{Interfaces: map[value.Zone][]value.IfName{}}
	for i := range packetZones {
		c.Interfaces[zone(i)] = []value.IfName{value.Must[value.IfName](fmt.Sprintf("zone%d", i))}
	}
	for range 100 {
		port := 1 + 1000 + random.IntN(60000)
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
		if any > 0 && i%(n/any) == 0 {
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
		c.Rules = append(c.Rules, r)
	}
	accept := firewall.Rule{SrcZone: zone(0), DstZone: zone(1), SrcKind: "any", DstKind: "any", Action: "accept", Enabled: true}
	accept.ID = id(random)
	c.Rules = append(c.Rules, accept)
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

// flatten is the table of a policy without the zones' chains: all its rules stand in the chain forward, and each asks
// for its interfaces itself. All else is as in the gateway's table.
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
