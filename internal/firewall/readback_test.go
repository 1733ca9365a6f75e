package firewall

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/value"
)

// meant is one rule of the table in a neutral form: what it checks and what it does.
type meant struct {
	family, from, to, service string
	iif, oif                  string
	local, counter            bool
	log, do                   string
}

// listedGate leads the packets of some addresses to a chain.
type listedGate struct {
	asks   meant
	target string
}

// listing is a table as nft lists it.
type listing struct {
	rules  map[string][]meant        // by comment
	counts map[string]map[string]int // chain → comment → rules
	sets   map[string]string
	places map[string]map[string]bool // comment → chains
	gates  []listedGate
	leads  map[string][]string // chain → chains that it jumps to
	chains map[string][]meant  // chain → its rules with an id
}

type object = map[string]any

// readBack reads the gateway's table from the kernel, through nft.
func readBack(t testing.TB) listing {
	t.Helper()
	out, err := exec.Command("nft", "-j", "list", "table", "inet", tableName).Output()
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Nftables []object }
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	k := listing{
		rules: map[string][]meant{}, counts: map[string]map[string]int{}, sets: map[string]string{}, places: map[string]map[string]bool{},
		leads: map[string][]string{}, chains: map[string][]meant{},
	}
	for _, x := range list.Nftables {
		if set, ok := x["set"].(object); ok {
			k.sets[set["name"].(string)] = addressText(t, set["elem"])
		}
		r, ok := x["rule"].(object)
		if !ok {
			continue
		}
		chain, comment := r["chain"].(string), fmt.Sprint(r["comment"])
		if k.counts[chain] == nil {
			k.counts[chain] = map[string]int{}
		}
		if k.places[comment] == nil {
			k.places[comment] = map[string]bool{}
		}
		k.counts[chain][comment]++
		k.places[comment][chain] = true
		exprs := r["expr"].([]any)
		m := understand(t, exprs)
		k.rules[comment] = append(k.rules[comment], m)
		if strings.HasPrefix(comment, "gid:") {
			k.chains[chain] = append(k.chains[chain], m)
		}
		if jump, ok := exprs[len(exprs)-1].(object)["jump"].(object); ok {
			to := jump["target"].(string)
			k.leads[chain] = append(k.leads[chain], to)
			if len(exprs) > 1 {
				k.gates = append(k.gates, listedGate{m, to})
			}
		}
	}
	return k
}

// understand converts the expressions of a rule into the neutral form. An unknown one fails the test.
func understand(t testing.TB, exprs []any) (m meant) {
	t.Helper()
	var protos []string
	for _, e := range exprs {
		for kind, arg := range e.(object) {
			switch kind {
			case "counter":
				m.counter = true
			case "log":
				m.log = fmt.Sprintf("%v %v", arg.(object)["prefix"], arg.(object)["group"])
			case "accept", "drop", "masquerade", "limit", "mangle":
				m.do = strings.TrimSpace(m.do + " " + kind)
			case "reject":
				m.do = "reject"
			case "jump", "goto", "vmap":
				m.do = kind
			case "snat", "dnat":
				m.do = kind + " " + targetText(t, arg.(object))
			case "match":
				protos = ask(t, &m, arg.(object), protos)
			default:
				t.Fatalf("an expression %s", kind)
			}
		}
	}
	if len(protos) > 0 && m.service == "" {
		m.service = serviceText(t, protos, []any{object{"range": []any{0.0, 65535.0}}})
	}
	// nft does not print a family that the protocol implies.
	switch m.service {
	case "icmp:0-65535":
		m.family = "ip"
	case "icmpv6:0-65535":
		m.family = "ip6"
	}
	return m
}

// ask converts one check of a rule. Protocols wait for their ports.
func ask(t testing.TB, m *meant, match object, protos []string) []string {
	t.Helper()
	left, right := match["left"].(object), match["right"]
	if pair, ok := left["concat"]; ok {
		if text := fmt.Sprint(pair); text != "[map[meta:map[key:l4proto]] map[payload:map[field:dport protocol:th]]]" {
			t.Fatal(text)
		}
		var parts []string
		for _, x := range right.(object)["set"].([]any) {
			both := x.(object)["concat"].([]any)
			parts = append(parts, serviceText(t, []string{both[0].(string)}, []any{both[1]}))
		}
		slices.Sort(parts)
		m.service = strings.Join(parts, " ")
		return protos
	}
	if p, ok := left["payload"].(object); ok {
		switch proto, field := p["protocol"].(string), p["field"].(string); {
		case field == "saddr":
			m.family, m.from = proto, addressText(t, right)
		case field == "daddr":
			m.family, m.to = proto, addressText(t, right)
		case field == "dport" && proto == "th":
			m.service = serviceText(t, protos, atoms(right))
		case field == "dport":
			m.service = serviceText(t, []string{proto}, atoms(right))
		default:
			m.service = proto + " " + field
		}
		return protos
	}
	if left["fib"] != nil {
		m.local = true
		return protos
	}
	if left["ct"] != nil {
		m.service = fmt.Sprint(left["ct"], right)
		return protos
	}
	var words []string
	for _, x := range atoms(right) {
		words = append(words, x.(string))
	}
	slices.Sort(words)
	switch key := left["meta"].(object)["key"]; key {
	case "nfproto":
		m.family = map[string]string{"ipv4": "ip", "ipv6": "ip6"}[words[0]]
	case "l4proto":
		return words
	case "iifname":
		m.iif = strings.Join(words, " ")
	case "oifname":
		m.oif = strings.Join(words, " ")
	default:
		t.Fatalf("a question about %s", key)
	}
	return protos
}

// atoms returns the elements of a set, or the single value.
func atoms(x any) []any {
	if o, ok := x.(object); ok && o["set"] != nil {
		return o["set"].([]any)
	}
	return []any{x}
}

// addressText formats a list of addresses in canonical form; a named set is its name.
func addressText(t testing.TB, x any) string {
	t.Helper()
	if name, ok := x.(string); ok && strings.HasPrefix(name, "@") {
		return name
	}
	var spans []nft.Span
	elements, ok := x.([]any)
	if !ok && x != nil {
		elements = atoms(x)
	}
	for _, e := range elements {
		switch v := e.(type) {
		case string:
			a := netip.MustParseAddr(v)
			spans = append(spans, nft.Span{First: a, Last: a})
		case object:
			if p, ok := v["prefix"].(object); ok {
				n := netip.PrefixFrom(netip.MustParseAddr(p["addr"].(string)), int(p["len"].(float64)))
				spans = append(spans, nft.Span{First: n.Addr(), Last: value.Last(n)})
				continue
			}
			r := v["range"].([]any)
			spans = append(spans, nft.Span{First: netip.MustParseAddr(r[0].(string)), Last: netip.MustParseAddr(r[1].(string))})
		}
	}
	return spanText(merge(spans))
}

func spanText(list []nft.Span) string {
	var parts []string
	for _, s := range list {
		parts = append(parts, s.First.String()+"-"+s.Last.String())
	}
	return strings.Join(parts, " ")
}

func serviceText(t testing.TB, protos []string, ports []any) string {
	t.Helper()
	var parts []string
	for _, proto := range protos {
		for _, p := range ports {
			first, last := p, p
			if o, ok := p.(object); ok {
				first, last = o["range"].([]any)[0], o["range"].([]any)[1]
			}
			parts = append(parts, fmt.Sprintf("%s:%v-%v", strings.Replace(proto, "ipv6-icmp", "icmpv6", 1), first, last))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func targetText(t testing.TB, arg object) string {
	t.Helper()
	text := fmt.Sprint(arg["family"], " ", netip.MustParseAddr(arg["addr"].(string)))
	switch port := arg["port"].(type) {
	case nil:
	case float64:
		text += fmt.Sprintf(" %v-%v", port, port)
	case object:
		if r, ok := port["range"].([]any); ok {
			return text + fmt.Sprintf(" %v-%v", r[0], r[1])
		}
		// Each port of one range is mapped to the port at the same position of another.
		pairs := port["map"].(object)["data"].(object)["set"].([]any)
		for i, p := range pairs {
			from, to := p.([]any)[0].(float64), p.([]any)[1].(float64)
			if first := pairs[0].([]any); from != first[0].(float64)+float64(i) || to != first[1].(float64)+float64(i) {
				t.Fatalf("%v", pairs)
			}
		}
		text += fmt.Sprintf(" %v from %v for %d", pairs[0].([]any)[1], pairs[0].([]any)[0], len(pairs))
	}
	return text
}

// intent is what the model expects of each operator's rule, in the neutral form.
func (rs *Ruleset) intent() map[string][]meant {
	all := map[string][]meant{}
	for i := range rs.Rules {
		p := rs.Rules[i]
		m := meant{counter: true, do: p.Action}
		if p.Log {
			m.log = "gateway:" + p.ID.String() + " 0"
		}
		tag := "gid:" + p.ID.String()
		if p.From.Any && p.To.Any && !slices.ContainsFunc(p.Services.Ports, func(x nft.Ports) bool { return !ported(x.Proto) }) {
			if m.service = wanted(p.Services.Ports); p.Services.Any || len(p.Services.Ports) > 0 {
				all[tag] = []meant{m}
			}
			continue
		}
		for f, family := range []string{"ip", "ip6"} {
			ports := slices.DeleteFunc(slices.Clone(p.Services.Ports), func(x nft.Ports) bool { return x.Proto == []uint8{nft.ICMPv6, nft.ICMP}[f] })
			from, fromOK := addressesWanted(&p.From, nft.Family(f))
			to, toOK := addressesWanted(&p.To, nft.Family(f))
			if fromOK && toOK && (p.Services.Any || len(ports) > 0) {
				m.family, m.from, m.to, m.service = family, from, to, wanted(ports)
				all[tag] = append(all[tag], m)
			}
		}
	}
	for _, t := range append(slices.Clone(rs.Destination), rs.Source...) {
		m := meant{counter: true, from: spanText(t.Src), to: spanText(t.Dst), service: wanted(t.Services.Ports), do: t.Kind, local: t.Kind == natDestination && len(t.Dst) == 0}
		in, inOK := linksWanted(rs, t.In)
		out, outOK := linksWanted(rs, t.Out)
		if !inOK || !outOK {
			continue
		}
		m.iif, m.oif = in, out
		if t.Family != nil {
			m.family = []string{"ip", "ip6"}[*t.Family]
		}
		if g := t.Target; g.Addr.IsValid() {
			m.do += fmt.Sprintf(" %s %s", m.family, g.Addr)
			switch {
			case g.Shift != 0:
				m.do += fmt.Sprintf(" %d from %d for %d", g.First, g.Shift, g.Last-g.First+1)
			case g.First != 0:
				m.do += fmt.Sprintf(" %d-%d", g.First, g.Last)
			}
		}
		all["gid:"+t.ID.String()] = []meant{m}
	}
	return all
}

func addressesWanted(a *Addresses, f nft.Family) (string, bool) {
	switch {
	case a.Any:
		return "", true
	case !a.Set[f].IsZero():
		return "@" + a.Set[f].String(), true
	}
	return spanText(a.Spans[f]), len(a.Spans[f]) > 0
}

func linksWanted(rs *Ruleset, z value.Zone) (string, bool) {
	if z == anywhere {
		return "", true
	}
	var names []string
	for _, l := range rs.links(z) {
		names = append(names, l.String())
	}
	slices.Sort(names)
	return strings.Join(names, " "), len(names) > 0
}

func wanted(list []nft.Ports) string {
	var parts []string
	for _, p := range list {
		last := fmt.Sprintf("-%d", p.Last)
		parts = append(parts, fmt.Sprintf("%s:%d%s", protoName(p.Proto), p.First, last))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// The kernel's table is the intended one, rule by rule and set by set.
func TestHostileTableReadsBackAsMeant(t *testing.T) {
	seed, rulesets := number(t, "GATEWAY_FUZZ_SEED", uint64(time.Now().UnixNano())), longtest.Number(t, "GATEWAY_FUZZ_RULESETS", 12, 40)
	t.Logf("GATEWAY_FUZZ_SEED=%d", seed)
	w := paper(t)
	t.Cleanup(func() { _ = loadText("flush ruleset") })
	compared := 0
	for i := range rulesets {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, uint64(i))), w: w}
		c := m.config()
		rs := compile(c)
		files, err := Render(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := loadText(string(files[0].Content)); err != nil {
			t.Fatalf("ruleset %d: %v\n%s", i, err, files[0].Content)
		}
		k, want := readBack(t), rs.intent()
		for comment, is := range k.rules {
			if !strings.HasPrefix(comment, "gid:") {
				continue
			}
			if !slices.Equal(is, want[comment]) {
				t.Fatalf("ruleset %d: %s is\n%+v\nand not\n%+v\n%s", i, comment, is, want[comment], files[0].Content)
			}
			if len(k.places[comment]) != 1 {
				t.Fatalf("ruleset %d: %s stands in %v", i, comment, k.places[comment])
			}
			compared += len(is)
			delete(want, comment)
		}
		if len(want) > 0 {
			t.Fatalf("ruleset %d: not in the kernel: %v", i, want)
		}
		k.checkRest(t, i, &rs)
	}
	if compared < rulesets*10 {
		t.Errorf("only %d rules were compared", compared)
	}
}

// checkGates checks that no gate keeps a packet from a rule that matches it.
func (k listing) checkGates(t *testing.T, i int) {
	t.Helper()
	addresses := func(text string) string {
		if set, named := strings.CutPrefix(text, "@"); named {
			return k.sets[set]
		}
		return text
	}
	for _, g := range k.gates {
		from, to := addresses(g.asks.from), addresses(g.asks.to)
		for behind := []string{g.target}; len(behind) > 0; behind = behind[1:] {
			for _, m := range k.chains[behind[0]] {
				if m.family == g.asks.family && !(within(m.from, from) && within(m.to, to)) || m.family == "" {
					t.Fatalf("ruleset %d: behind the gate %+v stands %+v", i, g, m)
				}
			}
			behind = append(behind, k.leads[behind[0]]...)
		}
	}
}

// within reports whether all addresses of one text are among those of another; an empty text stands for all.
func within(inner, outer string) bool {
	spans := func(text string) (list [][2]netip.Addr) {
		for _, span := range strings.Fields(text) {
			first, last, _ := strings.Cut(span, "-")
			list = append(list, [2]netip.Addr{netip.MustParseAddr(first), netip.MustParseAddr(last)})
		}
		return list
	}
	if outer == "" {
		return true
	}
	all := spans(outer)
	for _, span := range spans(inner) {
		if !slices.ContainsFunc(all, func(o [2]netip.Addr) bool { return !span[0].Less(o[0]) && !o[1].Less(span[1]) }) {
			return false
		}
	}
	return inner != ""
}

// checkRest counts the automatic rules, compares the sets by element, and checks that the rest only leads the way.
func (k listing) checkRest(t *testing.T, i int, rs *Ruleset) {
	t.Helper()
	want := map[string]map[string]int{
		"input":       {"auto:established": 1, "auto:loopback": 1, "auto:icmpv6": 1, "auto:anti-lockout": 1, "auto:cluster": 2, "auto:vrrp": 2, "auto:drop-input": 1},
		"forward":     {"auto:established": 1, "auto:icmpv6": 1, "auto:dnat": 1, "auto:drop-forward": 1},
		"postrouting": {},
	}
	for _, o := range rs.Openings {
		a := openingAddresses(o)
		n := 0
		for f := range a.Spans {
			n += min(1, len(a.Spans[f]))
		}
		want["input"]["auto:opening-"+o.Service] += max(n, 1)
	}
	for _, tun := range rs.Tunnels {
		want["forward"]["auto:tunnel"]++
		if len(tun.Networks) > 0 {
			want["postrouting"]["auto:tunnel"] += len(tun.Networks)
		}
	}
	if len(rs.Destination) > 0 {
		want["prerouting"] = map[string]int{"auto:management": 1}
	}
	if len(rs.Defaults) > 0 {
		want["answers"] = map[string]int{"auto:answers": 3}
	}
	for chain, counts := range k.counts {
		automatic := map[string]int{}
		for comment, n := range counts {
			if strings.HasPrefix(comment, "auto:") {
				automatic[comment] = n
			}
		}
		if !maps.Equal(automatic, want[chain]) {
			t.Fatalf("ruleset %d: chain %s has %v and not %v", i, chain, automatic, want[chain])
		}
	}
	for _, m := range k.rules["<nil>"] {
		switch lead := m.do; {
		case m == meant{do: lead} && (lead == "jump" || lead == "goto" || lead == "vmap"):
		case m == meant{do: "jump", family: m.family, from: m.from, to: m.to}:
		default:
			t.Fatalf("ruleset %d: a rule of nobody: %+v", i, m)
		}
	}
	k.checkGates(t, i)
	sets := map[string]string{}
	for _, s := range slices.Concat(rs.Sets, peerSets(*rs), newDispatch(*rs, nil).sets()) {
		sets[s.Name.String()] = spanText(s.Elements)
	}
	if !maps.Equal(sets, k.sets) {
		t.Fatalf("ruleset %d: the sets are %v and not %v", i, k.sets, sets)
	}
}
