package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// Whatever the changes of backends and servers, a configuration that is derived from the previous one is that of all rows. haproxy.cfg is
// written in parts.
func TestAmendedConfigurationIsThatOfAllRows(t *testing.T) {
	r, b := running(t, func(string) string { return "" })
	chance := rand.New(rand.NewPCG(longtest.Seed(t, rand.Uint64()), 0))
	var backends []*Backend
	var servers []*Server
	create := func(path string, body map[string]any, into any) {
		b.Do(t, "admin", http.MethodPost, path, body).Want(t, 201).Into(t, into)
	}
	name := func(n int) string { return fmt.Sprintf("%d-%d", n, chance.IntN(1e6)) }
	form := func() map[string]any {
		return map[string]any{"lb_algorithm": []string{"roundrobin", "leastconn", "source"}[chance.IntN(3)], "health_check_enabled": chance.IntN(2) == 0, "active": chance.IntN(4) > 0}
	}
	took := b.Machine.Amends(haproxy.Config)
	was, err := r.load(t.Context(), b.DB)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		row := apply.Row{Kind: r.backends.Name}
		switch kind := chance.IntN(6); {
		case kind < 2 || len(backends) == 0:
			body, x := form(), &Backend{}
			body["name"] = name(n)
			create("/backends", body, x)
			backends, row.Now = append(backends, x), x
		case kind == 2:
			x := backends[chance.IntN(len(backends))]
			b.Do(t, "admin", http.MethodPut, "/backends/"+x.ID.String(), form()).Want(t, 200)
			row.Was, row.Now = x, x
		case kind == 3:
			x := &Server{} // with a name, so that it needs a reload
			create("/backends/"+backends[chance.IntN(len(backends))].ID.String()+"/servers", map[string]any{"name": name(n), "address": "a.example.net", "port": 80}, x)
			servers, row.Kind, row.Now = append(servers, x), r.servers.Name, x
		case kind == 4 && len(servers) > 0:
			x := servers[chance.IntN(len(servers))]
			b.Do(t, "admin", http.MethodPut, "/backend-servers/"+x.ID.String(), map[string]any{"name": name(n)}).Want(t, 200)
			row.Kind, row.Was, row.Now = r.servers.Name, x, x
		case kind == 5 && n%4 == 0:
			i := chance.IntN(len(backends))
			b.Do(t, "admin", http.MethodDelete, "/backends/"+backends[i].ID.String(), nil).Want(t, 200)
			row.Was = backends[i]
			servers = slices.DeleteFunc(servers, func(s *Server) bool { return s.BackendID == backends[i].ID })
			backends = slices.Delete(backends, i, i+1)
		}
		now, ok, err := r.amend(t.Context(), b.DB, was, []apply.Row{row})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		was = now
		c, err := r.load(t.Context(), b.DB)
		if err != nil {
			t.Fatal(err)
		}
		files, err := Render(c)
		if err != nil {
			t.Fatal(err)
		}
		derived, err := Render(now)
		if err != nil || len(derived) != len(files) {
			t.Fatal(len(derived), len(files), err)
		}
		for i, f := range derived {
			if f.Place != files[i].Place || string(f.Content) != string(files[i].Content) {
				t.Fatalf("%s is derived as %q instead of %q", f.Place, f.Content, files[i].Content)
			}
		}
		waittest.UntilNil(t, "the files follow", func() error { return same(b.Machine.Read, files) })
		if text, err := haproxy.Split(string(files[0].Content)); err != nil || !text.Same(files[0].Parts) {
			t.Fatalf("it is divided in another way: %v\n%s", err, files[0].Content)
		}
	}
	if took = b.Machine.Amends(haproxy.Config) - took; took < 5 {
		t.Errorf("only %d changes were written in parts", took)
	}
}

// same compares files with those on the machine.
func same(read func(host.Place) ([]byte, error), files []host.File) error {
	for _, f := range files {
		if content, err := read(f.Place); err != nil || string(content) != string(f.Text()) {
			return fmt.Errorf("%s is %q instead of %q: %w", f.Place, content, f.Text(), err)
		}
	}
	return nil
}
