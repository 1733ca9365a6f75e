package machine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// dead is the port of servers that are not there.
const dead = 8099

// sitePaths are requested from every site. Routing rules send some of them elsewhere.
var sitePaths = []string{"/", "/p1", "/p1/x", "/p1/deep/x", "/p2/x"}

// impactOnSites holds what previews say about sites against what requests to them get.
func impactOnSites(t *testing.T, p *proxyRig) {
	seed := longtest.Seed(t, 1)
	w := &sites{proxyRig: p, random: rand.New(rand.NewPCG(seed, 7))}
	var operations []operation
	for _, origin := range []string{"a", "b", "c", "tls"} {
		scheme := "http"
		if origin == "tls" {
			scheme = "https"
		}
		p.names++
		backend := create("proxy.backend", fields{"name": fmt.Sprint("impact ", p.names), "scheme": scheme, "health_check_path": "/health", "health_check_interval_seconds": 1})
		w.backends = append(w.backends, backend.ID)
		operations = append(operations, backend, create("proxy.server", fields{"backend_id": backend.ID, "name": "live", "address": lan4, "port": p.origins[origin].port}))
		if origin == "a" || origin == "tls" { // their second server is never up
			operations = append(operations, create("proxy.server", fields{"backend_id": backend.ID, "name": "dead", "address": lan4, "port": dead}))
		}
	}
	p.change(t, operations...)
	for _, row := range operations {
		if row.Kind == "proxy.server" {
			w.servers = append(w.servers, row.ID)
		}
	}
	found := map[string]int{}
	for n := range longtest.Number(t, "GATEWAY_IMPACT_CASES", 3, 12) {
		for effect, count := range w.run(t) {
			found[effect] += count
		}
		if t.Failed() {
			t.Fatalf("case %d", n)
		}
	}
	t.Logf("sites by what became of them: %v", found)
}

// sites are sites at random, and what serves them.
type sites struct {
	*proxyRig
	random   *rand.Rand
	backends []string // each has its own origin
	servers  []string
	names    []string // of the sites
}

func (w *sites) one(list ...string) string { return list[w.random.IntN(len(list))] }

func (w *sites) run(t *testing.T) map[string]int {
	t.Helper()
	present := w.build(t)
	if w.random.IntN(2) == 0 { // one of them is ill
		w.origins[w.one("a", "b", "c", "tls")].health.Store(500)
	}
	defer func() {
		for _, o := range w.origins {
			o.health.Store(200)
		}
	}()
	w.settled(t)
	before := w.ask(t)
	changes := w.changes(present)
	said := foretold(t, w.Lab, "sites", changes)
	a := w.Must(t, http.MethodPost, "/change-sets", fields{"operations": changes}, 200, nil)
	found := map[string]int{}
	// Requests before HAProxy has detected that a server is down are not part of the prediction.
	waittest.UntilNil(t, "what was said", func() error {
		after := w.ask(t)
		clear(found)
		for _, name := range w.names {
			seen, says := became(before[name], after[name]), said[name]
			found[seen]++
			if seen != says.Effect && !(says.Effect == "rerouted" && strings.Contains(says.After, "if one of its new servers answers")) {
				return fmt.Errorf("%s: %+v was said, and %q happened: it saw\n%v, and now\n%v, after %+v", name, says, seen, before[name], after[name], changes)
			}
		}
		return nil
	})
	if id := a.Header.Get("Gateway-Change-Set"); id != "" {
		w.Must(t, http.MethodPost, "/change-sets/"+id+"/revert", nil, 200, nil)
	}
	var away []operation
	for _, row := range present {
		away = append([]operation{{Kind: row.Kind, Verb: "delete", ID: row.ID}}, away...)
	}
	w.change(t, away...)
	return found
}

// build creates sites, one of which has every name that the others do not have.
func (w *sites) build(t *testing.T) (rows []operation) {
	t.Helper()
	w.proxyRig.names++
	zone := fmt.Sprintf("zone%d.example.net", w.proxyRig.names)
	w.names = nil
	for _, name := range []string{"*", "one", "two"} {
		domain := create("proxy.domain", fields{"name": name + "." + zone, "backend_id": w.one(w.backends...), "http_to_https": false})
		w.names, rows = append(w.names, name+"."+zone), append(rows, domain)
		for n, prefix := range []string{"/p1", "/p1/deep", "/p2"} {
			if w.random.IntN(2) == 0 {
				rows = append(rows, create("proxy.routing-rule", fields{"domain_id": domain.ID, "path_prefix": prefix, "backend_id": w.one(w.backends...),
					"strip_prefix": w.random.IntN(2) == 0, "priority": 10*w.random.IntN(10) + n}))
			}
		}
	}
	w.change(t, rows...)
	return rows
}

// settled waits until HAProxy knows which servers are up.
func (w *sites) settled(t *testing.T) {
	t.Helper()
	waittest.UntilNil(t, "HAProxy knows its servers", func() error {
		for _, s := range w.stats(t).Backends {
			n := slices.Index(w.backends, s.BackendID)
			if n < 0 || s.Server == "BACKEND" {
				continue
			}
			want := "UP"
			if s.Server == "dead" || w.origins[[]string{"a", "b", "c", "tls"}[n]].health.Load() != 200 {
				want = "DOWN"
			}
			if s.Status != want {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
}

// ask requests all sites, and returns the origins that answer for their paths; empty if none does.
func (w *sites) ask(t *testing.T) map[string]map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := map[string]map[string]string{}
	for _, name := range w.names {
		seen[name] = map[string]string{}
		for _, path := range sitePaths {
			got, err := w.try(ctx, ask{url: "https://" + strings.Replace(name, "*", "any", 1) + path})
			if err == nil && got.StatusCode == 200 {
				seen[name][path] = got.Origin + " " + got.URI
			}
		}
	}
	return seen
}

// became returns the effect of a change on a site, from the origins that answered for its paths before and after.
func became(was, now map[string]string) (effect string) {
	for _, path := range sitePaths {
		switch {
		case was[path] != "" && now[path] == "":
			return "cut"
		case was[path] != now[path] && len(was) > 0:
			effect = "rerouted"
		}
	}
	return effect
}

// changes is a change set about some of the rows.
func (w *sites) changes(present []operation) (operations []operation) {
	touched := map[string]bool{}
	for want := 1 + w.random.IntN(3); len(operations) < want; {
		row := present[w.random.IntN(len(present))]
		edit := operation{Kind: row.Kind, Verb: "update", ID: row.ID}
		switch choice := w.random.IntN(8); {
		case choice == 0:
			edit.Kind, edit.ID, edit.Body = "proxy.backend", w.one(w.backends...), fields{"active": false}
		case choice == 1:
			edit.Kind, edit.ID = "proxy.server", w.one(w.servers...)
			edit.Body = []fields{{"active": false}, {"weight": 0}, {"backup": true}, {"port": dead}}[w.random.IntN(4)]
		case choice == 2:
			edit.Verb = "delete"
		case choice == 3 && row.Kind == "proxy.domain":
			edit.Body = fields{"maintenance": true}
		case choice == 3:
			edit.Body = fields{"priority": w.random.IntN(100)}
		case choice == 4:
			edit.Body = fields{"active": false}
		case choice == 5 && row.Kind == "proxy.domain":
			edit.Body = fields{"hsts_enabled": true, "access_log": true}
		case choice == 5:
			edit.Body = fields{"strip_prefix": w.random.IntN(2) == 0}
		default:
			edit.Body = fields{"backend_id": w.one(w.backends...)}
		}
		// Rows that are deleted with another row are not changed, too.
		if above, _ := row.Body["domain_id"].(string); touched[edit.ID] || touched[above] {
			continue
		}
		touched[edit.ID] = true
		operations = append(operations, edit)
	}
	return operations
}
