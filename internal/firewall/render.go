package firewall

import (
	"slices"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/value"
)

// tableName is the gateway's own table; all others belong to other programs.
const tableName = "gateway"

// Render compiles the configuration into the file that nft loads.
func Render(c Config) ([]host.File, error) { return []host.File{draw(c, nil).file().Whole()}, nil }

// drawing is the table of a configuration with its parts. The next one reuses the parts that have not changed.
type drawing struct {
	resolved *resolved
	chains   *chains
	text     parts.Text
}

// draw makes the table of a configuration. The result does not depend on the previous drawing, which only saves work.
func draw(c Config, was *drawing) *drawing {
	if was == nil {
		was = &drawing{}
	}
	now := &drawing{resolved: resolve(&c, was.resolved)}
	rs := compiled(c, now.resolved)
	d := newDispatch(rs, was.chains)
	t := table(rs, d)
	now.chains, now.text = d.chains, t.Parts()
	return now
}

func (d *drawing) file() host.File { return host.File{Place: nftables.Table, Parts: d.text} }

// render is Render, based on the last drawing, and leaves the whole content to those who need it.
func (r *Room) render(c Config) ([]host.File, error) {
	r.drawing.Lock()
	defer r.drawing.Unlock()
	r.drawn = draw(c, r.drawn)
	return []host.File{r.drawn.file()}, nil
}

// table returns the whole packet filter as one table.
func table(rs Ruleset, d *dispatch) nft.Table {
	t := nft.Table{Name: tableName, Notes: rs.notes(), Sets: slices.Concat(rs.Sets, peerSets(rs), d.sets())}
	t.Chains = append(t.Chains, d.list...)
	t.Chains = append(t.Chains, input(rs, d), forward(rs, d), prerouting(rs), postrouting(rs))
	if len(rs.Defaults) > 0 {
		t.Chains = append(t.Chains, answers(rs))
	}
	return t
}

var peerNames = [...]nft.Name{nft.V4: nft.Named("cluster_peers_4"), nft.V6: nft.Named("cluster_peers_6")}

// peerSets exist even without a peer, so that a peer can be admitted without replacing the table.
func peerSets(rs Ruleset) []*nft.Set {
	sets := []*nft.Set{{Name: peerNames[nft.V4], Family: nft.V4}, {Name: peerNames[nft.V6], Family: nft.V6}}
	for _, p := range rs.Peers {
		f := nft.FamilyOf(p.First)
		sets[f].Elements = append(sets[f].Elements, p)
	}
	for _, f := range nft.Families {
		sets[f].Elements = merge(sets[f].Elements)
	}
	return sets
}

// rule is one of the gateway's own rules.
func rule(tag nft.Tag, exprs ...nft.Expr) nft.Rule { return nft.Rule{Exprs: exprs, Tag: tag} }

var (
	established = rule(nft.Auto("auto:established"), nft.Do("ct state established,related"), nft.Accept)
	// IPv6 does not work without these: finding neighbours and routers, and learning that a packet was too big.
	neighbours = rule(nft.Auto("auto:icmpv6"), nft.Do("icmpv6 type { packet-too-big, nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert }"), nft.Accept)
)

// dropLog logs what no rule has accepted, before the policy of the chain drops it.
func dropLog(tag nft.Tag, log nft.Expr) nft.Rule {
	return rule(tag, nft.Do("limit rate 10/second burst 5 packets"), log)
}

func input(rs Ruleset, d *dispatch) *nft.Chain {
	c := &nft.Chain{Name: nft.Named("input"), Hook: "type filter hook input priority filter; policy drop;"}
	c.Rules = append(c.Rules,
		established,
		rule(nft.Auto("auto:loopback"), nft.Do(`iifname "lo"`), nft.Accept),
		neighbours,
		rule(nft.Auto("auto:anti-lockout"), nft.Service(lockout.Ports), nft.Counter, nft.Accept),
	)
	for _, f := range nft.Families {
		c.Rules = append(c.Rules,
			rule(nft.Auto("auto:cluster"), nft.InSet(nft.From, f, peerNames[f]), nft.Service(peering.Ports), nft.Counter, nft.Accept),
			// A node that does not hear the others takes the virtual addresses although another node has them.
			rule(nft.Auto("auto:vrrp"), nft.InSet(nft.From, f, peerNames[f]), nft.Do("meta l4proto 112"), nft.Counter, nft.Accept))
	}
	c.Rules = append(c.Rules, d.input...)
	for _, o := range rs.Openings {
		c.Rules = append(c.Rules, opening(o)...)
	}
	c.Rules = append(c.Rules, dropLog(nft.Auto("auto:drop-input"), nft.Log("gateway:drop-input")))
	return c
}

func forward(rs Ruleset, d *dispatch) *nft.Chain {
	c := &nft.Chain{Name: nft.Named("forward"), Hook: "type filter hook forward priority filter; policy drop;"}
	c.Rules = append(c.Rules,
		established,
		neighbours,
		rule(nft.Auto("auto:dnat"), nft.Do("ct status dnat"), nft.Counter, nft.Accept),
	)
	c.Rules = append(c.Rules, d.forward...)
	for _, t := range rs.Tunnels {
		c.Rules = append(c.Rules, rule(nft.Auto("auto:tunnel"), nft.Link(nft.From, []value.IfName{t.Interface}), nft.Counter, nft.Accept))
	}
	c.Rules = append(c.Rules, dropLog(nft.Auto("auto:drop-forward"), nft.Log("gateway:drop-forward")))
	return c
}

// match returns what a rule checks in a packet, by family. The dispatch has already checked the zones.
func match(from, to *Addresses, services *Services) [][]nft.Expr {
	if from.Any && to.Any && !services.families() {
		return [][]nft.Expr{serviceExpr(services.Any, services.Ports)}
	}
	var lines [][]nft.Expr
	for _, f := range nft.Families {
		ports := services.in(f)
		if !from.has(f) || !to.has(f) || !services.Any && len(ports) == 0 {
			continue
		}
		line := append(addressExpr(nft.From, f, from), addressExpr(nft.To, f, to)...)
		if len(line) == 0 {
			line = append(line, nft.Only(f))
		}
		lines = append(lines, append(line, serviceExpr(services.Any, ports)...))
	}
	return lines
}

func serviceExpr(whole bool, ports []nft.Ports) []nft.Expr {
	if whole {
		return nil
	}
	return []nft.Expr{nft.Service(ports)}
}

func addressExpr(s nft.Side, f nft.Family, a *Addresses) []nft.Expr {
	switch {
	case a.Any:
		return nil
	case !a.Set[f].IsZero():
		return []nft.Expr{nft.InSet(s, f, a.Set[f])}
	}
	return []nft.Expr{nft.Addr(s, a.Spans[f])}
}

var verdicts = map[string]nft.Expr{"accept": nft.Accept, "drop": nft.Drop, "reject": nft.Reject}

// lines returns the one or two kernel rules of a rule; none if nothing can match.
func (p *Policy) lines() []nft.Rule {
	var rules []nft.Rule
	if !p.Services.Any && len(p.Services.Ports) == 0 {
		return nil
	}
	for _, exprs := range match(&p.From, &p.To, &p.Services) {
		exprs = append(exprs, nft.Counter)
		if p.Log {
			exprs = append(exprs, nft.LogID("gateway:", p.ID))
		}
		rules = append(rules, nft.Rule{Exprs: append(exprs, verdicts[p.Action]), Tag: nft.IDTag("gid:", p.ID)})
	}
	return rules
}
