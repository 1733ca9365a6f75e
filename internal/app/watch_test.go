package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/backups"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/scheduler"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/kit/watch/watchtest"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/start"
	"edge.internal/gateway/internal/tunnel"
)

// All of gateway-scheduler with the API of a whole house: its jobs get their findings from the API, and it notifies a receiver.
func TestSchedulerFindsOutAndTells(t *testing.T) {
	t.Parallel() // it mostly waits
	url := dbtest.URL(t)
	d, err := db.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	b := kittest.NewOn(t, d)
	serve(t, b)
	b.Router.Sessions = kittest.Roles{}
	key := start.MasterKey(b.Paths)
	if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, bytes.Repeat([]byte{7}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Kind, Severity string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		got <- m.Kind + " " + m.Severity
	}))
	t.Cleanup(receiver.Close)
	as := func(method, path string, body any) *kittest.Answer {
		t.Helper()
		return b.Do(t, "admin", method, path, body)
	}
	as(http.MethodPost, "/alerts", map[string]any{"kind": "webhook", "target": receiver.URL, "allow_internal": true}).Want(t, http.StatusCreated)
	x, err := b.Machine.Resources()
	if err != nil {
		t.Fatal(err)
	}
	x.MemoryTotal, x.MemoryAvailable, x.Uptime = 1000, 40, time.Hour
	b.Machine.SetResources(x)

	b.Machine.LendPostgreSQL(backups.New(home.Home{}, nil, url, nil))

	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- RunScheduler(ctx, Config{Root: b.Paths.Root, Units: "none:a test", DB: url, LogLevel: "info"})
	}()
	defer func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	wait := func(want string) {
		t.Helper()
		for limit := time.After(2 * time.Minute); ; {
			select {
			case kind := <-got:
				if kind == want {
					return
				}
			case <-limit:
				t.Fatalf("%s was not told", want)
			}
		}
	}
	wait("system.memory error")
	x.MemoryAvailable = 900
	b.Machine.SetResources(x)
	as(http.MethodPost, "/system/jobs/watch.machine/run", nil).Want(t, http.StatusOK)
	wait("system.memory info") // it is over

	// Every check understands the API's answers. This machine has no time daemon and no reverse proxy, and nothing to dump the
	// database with.
	missing := []string{"watch.clock", "watch.backends", "backup"}
	list := func() (list []scheduler.Status) {
		t.Helper()
		as(http.MethodGet, "/system/jobs", nil).Want(t, http.StatusOK).Into(t, &list)
		return list
	}
	for _, j := range list() {
		if j.Name != "auto-update" {
			as(http.MethodPost, "/system/jobs/"+j.Name+"/run", nil).Want(t, http.StatusOK)
		}
	}
	waittest.UntilNil(t, "all jobs have run", func() error {
		open := slices.DeleteFunc(list(), func(j scheduler.Status) bool {
			return j.Name == "auto-update" || j.WantedAt == nil && (j.Result == "ok" || slices.Contains(missing, j.Name) && j.Result == "failed")
		})
		if len(open) > 0 {
			return fmt.Errorf("%+v", open)
		}
		return nil
	})
}

// A tunnel that another node of the cluster has is not down.
func TestTunnelsOfOtherNodes(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	serve(t, b)
	b.Router.Sessions = kittest.Roles{}
	b.Do(t, "admin", http.MethodPost, "/tunnel/interfaces", `{"name":"wg1","mode":"client","address_cidr":"10.7.0.2/32","upstream_public_key":"xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=","upstream_endpoint":"198.51.100.1:51820"}`).Want(t, 201)
	dbtest.Exec(t, b.DB, "UPDATE tunnel_interfaces SET updated_at = now() - interval '1 hour'")
	look := tunnel.Check.For(b.Kit, func(context.Context) (alarm.Limits, error) { return watchtest.Limits, nil }).Do
	for role, want := range map[string]int{"single": 1, "primary": 1, "standby": 0} {
		dbtest.Exec(t, b.DB, "UPDATE ha_state SET role = $1", role)
		b.Engine.Refresh(t.Context(), apply.Tunnel, false)
		if err := look(t.Context()); err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		if open, err := b.Alarms.Open(t.Context()); err != nil || len(open) != want {
			t.Errorf("%s: %+v, %v", role, open, err)
		}
	}
}

// Each check and each kind of alarm that a room or the kit declares is in the app's lists.
func TestNoCheckIsForgotten(t *testing.T) {
	declared := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			of, _ := lit.Type.(*ast.SelectorExpr)
			if of == nil {
				return true
			}
			pkg, _ := of.X.(*ast.Ident)
			if pkg == nil || !slices.Contains([]string{"alarm.Kind", "watch.Check"}, pkg.Name+"."+of.Sel.Name) {
				return true
			}
			ast.Inspect(lit, func(n ast.Node) bool {
				if kv, ok := n.(*ast.KeyValueExpr); ok && fmt.Sprint(kv.Key) == "Name" {
					name, _ := strconv.Unquote(kv.Value.(*ast.BasicLit).Value)
					declared[of.Sel.Name] = append(declared[of.Sel.Name], name)
				}
				return true
			})
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var names, looks []string
	for _, k := range kinds {
		names = append(names, string(k.Name))
		if k.Meaning == "" || k.Severity == "" {
			t.Errorf("%s does not say what it means", k.Name)
		}
	}
	for _, c := range checks {
		looks = append(looks, c.Name)
		for _, k := range c.Kinds {
			if !slices.Contains(kinds, k) {
				t.Errorf("%s finds %s", c.Name, k.Name)
			}
		}
	}
	for _, x := range []struct {
		what string
		list []string
	}{{"Kind", names}, {"Check", looks}} {
		slices.Sort(x.list)
		slices.Sort(declared[x.what])
		if !slices.Equal(x.list, declared[x.what]) || len(x.list) < 10 {
			t.Errorf("%s: %q are declared, and %q listed", x.what, declared[x.what], x.list)
		}
	}
}
