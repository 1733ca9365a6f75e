package proxy_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/resource"
)

func TestImpactOnSites(t *testing.T) {
	b := bench(t)
	b.Machine.SetUnit(host.UnitState{Unit: haproxy.Unit, Installed: true, Active: "active"})
	backend := func(name string) string {
		return made(t, b, "/backends", body{"name": name, "scheme": "http"})
	}
	server := func(backend, name string) string {
		return made(t, b, "/backends/"+backend+"/servers", body{"name": name, "address": "10.0.0.1", "port": 80})
	}
	shop, blog, empty := backend("shop"), backend("blog"), backend("empty")
	one, two := server(shop, "one"), server(shop, "two")
	server(blog, "blog")
	site := made(t, b, "/domains", body{"name": "www.example.net", "backend_id": shop})
	made(t, b, "/domains", body{"name": "*.example.net", "backend_id": blog})
	made(t, b, "/domains", body{"name": "closed.example.org", "backend_id": empty})
	rule := made(t, b, "/routing-rules", body{"domain_id": site, "path_prefix": "/blog", "backend_id": blog})
	down := ""
	var refuses error
	b.Machine.AnswerProxy(func(haproxy.Question) (string, error) {
		table := "# pxname,svname,status,scur,\n"
		for _, name := range []string{"one", "two"} {
			status := "UP"
			if name == down {
				status = "DOWN"
			}
			table += fmt.Sprintf("gateway_backend_%s,%s,%s,0,\n", shop, name, status)
		}
		return table + fmt.Sprintf("gateway_backend_%s,BACKEND,UP,12,\n", shop), refuses
	})
	foresee := func(kind, verb, id string, change body) resource.Impact {
		t.Helper()
		var out struct{ Impact []resource.Impact }
		op := body{"kind": kind, "verb": verb, "id": id}
		if change != nil {
			op["body"] = change
		}
		b.Do(t, "viewer", http.MethodPost, "/change-sets", body{"preview": true, "operations": []body{op}}).Want(t, 200).Into(t, &out)
		if len(out.Impact) != 1 || out.Impact[0].Area != resource.Sites {
			t.Fatalf("%+v", out)
		}
		return out.Impact[0]
	}
	expect := func(x resource.Impact, want ...resource.Affected) {
		t.Helper()
		// The site without a server is not served, so it cannot be lost.
		if !x.Computed || x.Checked != 2 || x.Count != len(want) {
			t.Fatalf("%+v", x)
		}
		for i := range want {
			if x.First[i] != want[i] {
				t.Errorf("%+v instead of %+v", x.First[i], want[i])
			}
		}
	}
	const before = "backend shop, /blog by backend blog, 12 sessions now"
	www := func(effect resource.Effect, after string) resource.Affected {
		return resource.Affected{What: "www.example.net", Effect: effect, Before: before, After: after}
	}
	expect(foresee("proxy.domain", "update", site, body{"maintenance": true}), www(resource.Cut, "the maintenance page"))
	expect(foresee("proxy.domain", "update", site, body{"hsts_enabled": true}))
	// The wildcard takes over.
	expect(foresee("proxy.domain", "update", site, body{"active": false}), www(resource.Rerouted, "backend blog"))
	expect(foresee("proxy.domain", "update", site, body{"backend_id": empty}), www(resource.Cut, "backend empty, which has no server that is up, /blog by backend blog"))
	expect(foresee("proxy.routing-rule", "delete", rule, nil), www(resource.Rerouted, "backend shop, 12 sessions now"))
	expect(foresee("proxy.backend", "update", blog, body{"active": false}),
		resource.Affected{What: "*.example.net", Effect: resource.Cut, Before: "backend blog", After: "error 503: backend blog, which is off"},
		www(resource.Cut, "backend shop, /blog by backend blog, which is off, 12 sessions now"))
	expect(foresee("proxy.server", "delete", one, nil))
	down = "two"
	expect(foresee("proxy.server", "delete", one, nil), www(resource.Cut, "backend shop, which has no server that is up, /blog by backend blog, 12 sessions now"))
	expect(foresee("proxy.server", "delete", two, nil))
	// Nobody can know whether a server answers that HAProxy does not check yet, or checks in another way.
	unasked := www(resource.Rerouted, "backend shop, if one of its new servers answers, /blog by backend blog, 12 sessions now")
	expect(foresee("proxy.server", "update", one, body{"port": 81}), unasked)
	expect(foresee("proxy.backend", "update", shop, body{"scheme": "https"}), unasked)
	expect(foresee("proxy.backend", "update", shop, body{"health_check_path": "/other"}), unasked)
	expect(foresee("proxy.server", "update", two, body{"port": 81}))
	expect(foresee("proxy.routing-rule", "update", rule, body{"strip_prefix": true}),
		www(resource.Rerouted, "backend shop, /blog by backend blog, which does not see the prefix, 12 sessions now"))
	for _, change := range []body{{"rate_limit_enabled": true}, {"max_body_size_bytes": 1000}} {
		if x := foresee("proxy.domain", "update", site, change); x.Computed || x.Why != "How many requests for www.example.net would be over its new limits is not known." {
			t.Errorf("%v: %+v", change, x)
		}
	}
	refuses = errors.New("no answer")
	if x := foresee("proxy.server", "delete", one, nil); x.Computed || x.Why != "HAProxy could not be asked which servers are up." {
		t.Errorf("%+v", x)
	}
}
