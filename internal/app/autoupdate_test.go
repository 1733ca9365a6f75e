package app

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/setup"
	"edge.internal/gateway/internal/upgrade/runner"
)

// serve sets up a whole house, and serves its control socket as gateway-api does.
func serve(t *testing.T, b *kittest.Bench) *setup.Store {
	t.Helper()
	store, err := setup.OpenStore(b.Paths)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(b.Kit, store, password.New(bcrypt.MinCost)); err != nil {
		t.Fatal(err)
	}
	b.Start(t)
	kittest.Call(t, b.Handler(), http.MethodPost, "/setup/complete", map[string]any{
		"admin_email": "admin@example.net", "admin_password": "correct horse battery", "fqdn": "gateway.example.net", "acme_email": "admin@example.net", "acme_enabled": false, "ipv6_enabled": true,
	}, "X-Test-Client", "127.0.0.1:4711").Want(t, 200)
	if err := os.MkdirAll(b.Paths.Run(""), 0o755); err != nil {
		t.Fatal(err)
	}
	socket, err := httpd.ListenUnix(b.Paths.Run("control.sock"), 0o600, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&httpd.Server{Handler: b.Handler(), Log: b.Log, Local: true}).Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return store
}

// The scheduler upgrades the gateway at night, if the operator has turned that on, and does not retry a version that was taken
// back.
func TestAutoUpdate(t *testing.T) {
	b := kittest.New(t)
	store := serve(t, b)
	offer := func(p host.PackageVersion) {
		p.Name, p.Installed = "gateway", "1.0.0"
		b.Machine.SetPackages(host.PackageVersions{Packages: []host.PackageVersion{p}, Lists: host.PackageLists{RefreshedAt: time.Now().Add(time.Hour)}}, nil)
	}
	night := func(what string, upgrades int) {
		t.Helper()
		if err := autoUpdate(t.Context(), b.Kit, store); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if n := b.Audited(t, "system.upgrade"); n != upgrades {
			t.Errorf("%s: %d upgrades instead of %d", what, n, upgrades)
		}
	}
	offer(host.PackageVersion{Available: "1.1.0", Newer: []string{"1.1.0"}})
	night("switched off", 0)
	if b.Machine.Refreshes() != 0 {
		t.Error("switched off, it asks apt all the same")
	}
	if err := store.Update(func(s *setup.State) error { s.AutoUpdate = true; return nil }); err != nil {
		t.Fatal(err)
	}
	night("switched on", 1)
	last, err := runner.Job.Last(b.Machine)
	if err != nil || last.To != "1.1.0" || b.Machine.Refreshes() != 1 {
		t.Errorf("%+v %v", last, err)
	}
	last.State = job.TakenBack
	b.Machine.SetJob(job.Upgrade, last)
	night("taken back", 1)
	offer(host.PackageVersion{Available: "1.2.0", Newer: []string{"1.2.0", "1.1.0"}})
	night("a later version", 2)
	b.Machine.SetJob(job.Upgrade, runner.Upgrade{Record: job.Record{ID: "2", State: job.Done}, To: "1.2.0"})
	offer(host.PackageVersion{Available: "1.0.0"})
	night("nothing newer", 2)
}
