// Package restore restores a whole gateway from its backups, kills that at every point, and checks the result.
package restore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/backup/archive"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

const failpoints = "/run/gateway/failpoints"

// within is how long a restore may take until it has ended.
const within = labtest.Slow * time.Minute

type made struct {
	ID, Status, Error, SHA256 string
	Proof                     *struct{ Status, Error string }
}

type restored struct {
	ID, State, Reason string
	Warnings          []string
	Steps             []struct{ Name, State, Error string }
}

// gateway is a lab with a backup, and a state after it that is another one.
type gateway struct {
	*labtest.Lab
	backup made
}

func up(t *testing.T) *gateway {
	t.Helper()
	l := labtest.UpAsAdmin(t, lab.Options{Env: []string{"GATEWAY_FAILPOINTS=" + failpoints}})
	if err := errors.Join(os.MkdirAll(l.Path(failpoints), 0o777), os.Chmod(l.Path(failpoints), 0o777)); err != nil {
		t.Fatal(err)
	}
	l.WaitState(t, "ntp", "live", 10*time.Second)
	g := &gateway{Lab: l}
	g.idle(t)
	return g
}

// idle waits for the backup that the scheduler starts at once on a machine that has been up for a day.
func (g *gateway) idle(t *testing.T) {
	t.Helper()
	waittest.UntilNil(t, "the scheduler's backup ends", func() error {
		var jobs []struct {
			Name, Result string
			NextAt       *time.Time `json:"next_at"`
		}
		g.Must(t, http.MethodGet, "/system/jobs", nil, 200, &jobs)
		for _, j := range jobs {
			if j.Name == "backup" && j.Result != "running" && j.NextAt != nil && time.Until(*j.NextAt) > 0 {
				return nil
			}
		}
		return fmt.Errorf("%+v", jobs)
	})
}

// server is the lab's PostgreSQL.
func (g *gateway) server(t *testing.T) *db.Server {
	t.Helper()
	d, err := db.Open(private.URL(g.Path("/run/postgresql"), "gateway"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d.Server()
}

// sql queries the lab's database.
func (g *gateway) sql(t *testing.T, query string) string {
	t.Helper()
	return strings.TrimSpace(g.Run(t, lab.Gateway, "psql", "--no-psqlrc", "-Atqc", query, private.URL("/run/postgresql", "gateway")))
}

func (g *gateway) pool(t *testing.T, address string) {
	t.Helper()
	g.Must(t, http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": address}, 201, nil)
}

func (g *gateway) back(t *testing.T) made {
	t.Helper()
	var b made
	g.Must(t, http.MethodPost, "/backups", nil, 201, &b)
	if b.Status != "success" {
		t.Fatalf("%+v", b)
	}
	return b
}

// ended waits until no restore runs. The session may be one of the data that went.
func (g *gateway) ended(t *testing.T) restored {
	t.Helper()
	var r struct {
		restored
		Step string
	}
	waittest.Within(t, within, "the restore ends", func() error {
		if _, err := os.Stat(g.Path(job.Restore.WishFile())); err == nil {
			log, _ := os.ReadFile(g.Log(host.Unit(job.Restore)))
			return fmt.Errorf("%s", log)
		}
		return nil
	})
	content, err := os.ReadFile(g.Path(job.Restore.RecordFile()))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	return r.restored
}

// login waits until the API answers, and logs in.
func (g *gateway) login(t *testing.T) {
	t.Helper()
	g.answers(t, "/system/health")
	g.Login(t)
}

// answers waits until the API and its database answer, and returns the data.
func (g *gateway) answers(t *testing.T, path string) (data json.RawMessage) {
	t.Helper()
	waittest.Within(t, within, "the API comes back", func() error {
		a, err := g.Do(t.Context(), http.MethodGet, path, nil)
		if err == nil && a.Status != 200 {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		if err == nil {
			data = a.Data
		}
		return err
	})
	g.WaitDatabase(t)
	return data
}

// contents are the rows of all tables but those that say what has just happened.
func contents(t *testing.T, s *db.Server) map[string]db.Content {
	t.Helper()
	tables, err := s.Contents(t.Context(), s.Live())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"audit_entries", "account_sessions", "account_users", "scheduler_jobs", "apply_revisions", "apply_local_revisions", "change_applies", "audit_outbox", "ha_state", "alarm_conditions", "alarm_events", "alarm_outbox", "alert_deliveries", "firewall_rule_hits"} {
		delete(tables, name)
	}
	return tables
}

func same(t *testing.T, when string, want, got map[string]db.Content) {
	t.Helper()
	for name, c := range want {
		if got[name] != c {
			t.Errorf("%s: %s is %+v instead of %+v", when, name, got[name], c)
		}
	}
}

// beside complains about leftover databases and files of a restore.
func (g *gateway) beside(t *testing.T, when string, s *db.Server) {
	t.Helper()
	for _, suffix := range []string{"_restore", "_former", "_proof"} {
		if there, err := s.Exists(t.Context(), s.Live()+suffix); err != nil || there {
			t.Errorf("%s: the database %s is left (%v)", when, s.Live()+suffix, err)
		}
	}
	entries, err := os.ReadDir(g.Path(job.Restore.Folder()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains([]string{"restore.json", "lock"}, e.Name()) {
			t.Errorf("%s: %s is left", when, e.Name())
		}
	}
}

// BK04: a restore brings back every row and every file, and the API within a minute.
func TestBK04RoundTrip(t *testing.T) {
	g := up(t)
	s := g.server(t)
	g.pool(t, "10.1.1.1")
	// An alert that has not been sent yet.
	g.sql(t, `WITH e AS (INSERT INTO alarm_events (id, created_at, kind, key, severity, subject, message) VALUES (gen_random_uuid(), now(), 'system.disk', 'old', 'warning', 'old', 'old') RETURNING id)
		INSERT INTO alert_deliveries (event_id, channel_id, channel, state, next_at) SELECT id, gen_random_uuid(), 'old', 'waiting', now() + interval '1 day' FROM e`)
	g.backup = g.back(t)
	before := contents(t, s)
	secretBefore, err := os.ReadFile(g.Path("/var/lib/gateway/jwt-secret"))
	if err != nil {
		t.Fatal(err)
	}
	// The state after the backup is another one.
	g.pool(t, "10.2.2.2")
	if err := os.WriteFile(g.Path("/var/lib/gateway/license.key"), []byte("not there when it was backed up"), 0o600); err != nil {
		t.Fatal(err)
	}
	var proven made
	g.Must(t, http.MethodPost, "/backups/"+g.backup.ID+"/verify", nil, 200, &proven)
	if proven.Proof == nil || proven.Proof.Status != "proven" {
		t.Fatalf("%+v %+v", proven, proven.Proof)
	}
	var plan struct{ Blockers, Warnings []string }
	g.Must(t, http.MethodPost, "/backups/"+g.backup.ID+"/restore-plan", nil, 200, &plan)
	if len(plan.Blockers) != 0 || len(plan.Warnings) != 0 {
		t.Errorf("%+v", plan)
	}
	g.Must(t, http.MethodPost, "/backups/"+g.backup.ID+"/restore", nil, 200, nil)
	if d := g.away(t); d > labtest.Slow*time.Minute {
		t.Errorf("the API is back after %s", d)
	} else {
		t.Logf("the API was away for %s", d)
	}
	if r := g.ended(t); r.State != "done" || len(r.Warnings) != 0 {
		t.Fatalf("%+v", r)
	}
	g.login(t)
	same(t, "after the restore", before, contents(t, s))
	if after, err := os.ReadFile(g.Path("/var/lib/gateway/jwt-secret")); err != nil || bytes.Equal(after, secretBefore) {
		t.Error("sessions from before the restore are still good", err)
	}
	if _, err := os.Stat(g.Path("/var/lib/gateway/license.key")); !os.IsNotExist(err) {
		t.Error("a file that the backup does not have is still there")
	}
	if state := g.sql(t, `SELECT state FROM alert_deliveries WHERE channel = 'old'`); state != "skipped" {
		t.Errorf("an alert of the backup is %s", state)
	}
	g.beside(t, "after the restore", s)
	g.WaitState(t, "ntp", "live", 20*time.Second)
	if sources := g.Run(t, lab.Gateway, "chronyc", "-c", "-n", "sources"); !strings.Contains(sources, "10.1.1.1") || strings.Contains(sources, "10.2.2.2") {
		t.Errorf("chronyd has %s", sources)
	}
	var list []made
	if g.Must(t, http.MethodGet, "/backups", nil, 200, &list); !slices.ContainsFunc(list, func(m made) bool { return m.ID == g.backup.ID }) {
		t.Errorf("the backups are %+v", list)
	}
	var last restored
	g.Must(t, http.MethodGet, "/backups/restore", nil, 200, &last)
	if last.State != "done" || len(last.Steps) != 5 {
		t.Errorf("%+v", last)
	}
	var entries []struct{ Action string }
	waittest.Until(t, "the audit log knows of the restore", func() bool {
		g.Must(t, http.MethodGet, "/audit?action=backup.restored", nil, 200, &entries)
		return len(entries) > 0
	})
	// A link of the machine under another name, and a key that this machine does not have.
	g.foreign(t)
	g.unfinished(t)
}

// unfinished restores on a machine that is not set up, as root does there.
func (g *gateway) unfinished(t *testing.T) {
	const file = "/run/gateway/archive.tar.zst"
	if err := os.WriteFile(g.Path(file), g.archive(t, g.backup.ID), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.Units().Stop(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(g.Path("/var/lib/gateway/setup.json")); err != nil {
		t.Fatal(err)
	}
	if err := g.Units().Start(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	var status struct{ Completed bool }
	if err := json.Unmarshal(g.answers(t, "/setup/status"), &status); err != nil || status.Completed {
		t.Fatal(status, err)
	}
	g.Run(t, lab.Gateway, "/run/gateway-lab/programs/gateway-ctl", "restore", "begin", file)
	if r := g.ended(t); r.State != "done" {
		t.Fatalf("%+v", r)
	}
	g.login(t) // as an account of the backup
	var pools []struct{ Address string }
	if g.Must(t, http.MethodGet, "/ntp/pools", nil, 200, &pools); !slices.ContainsFunc(pools, func(p struct{ Address string }) bool { return p.Address == "10.1.1.1" }) {
		t.Errorf("%+v", pools)
	}
}

// away waits until the API has stopped and answers again, and returns how long it did not.
func (g *gateway) away(t *testing.T) time.Duration {
	t.Helper()
	gone := time.Time{}
	waittest.Within(t, within, "the API is gone and comes back", func() error {
		a, err := g.Do(t.Context(), http.MethodGet, "/system/health", nil)
		up := err == nil && a.Status == 200
		if !up && gone.IsZero() {
			gone = time.Now()
		}
		if !up || gone.IsZero() {
			return fmt.Errorf("it answers: %t (%v)", up, err)
		}
		return nil
	})
	return time.Since(gone)
}

// foreign restores what another machine could have backed up.
func (g *gateway) foreign(t *testing.T) {
	g.Run(t, lab.Gateway, "ip", "link", "add", "spare0", "type", "veth", "peer", "name", "spare1")
	g.Must(t, http.MethodPost, "/network-interfaces", map[string]any{"name": "elsewhere0", "type": "ethernet", "role": "lan", "active": false}, 201, nil)
	b := g.back(t)
	content := g.archive(t, b.ID)
	var out bytes.Buffer
	r, err := archive.Open(bytes.NewReader(content), -1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var sources []archive.Source
	for {
		p, in, err := r.Next()
		if err == io.EOF {
			break
		}
		content, read := io.ReadAll(in)
		if err := errors.Join(err, read); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, archive.Source{Part: p, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }})
	}
	r.Manifest.KeyID, r.Manifest.Host = "0000000000000000", "elsewhere"
	if _, err := archive.Write(&out, r.Manifest, sources, ""); err != nil {
		t.Fatal(err)
	}
	// Brought here by root, as gateway-ctl does.
	file := filepath.Join(g.Path("/run/gateway"), "foreign.tar.zst")
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	said := g.Run(t, lab.Gateway, "/run/gateway-lab/programs/gateway-ctl", "backups", "add", "/run/gateway/foreign.tar.zst")
	id := strings.Fields(said)[0]
	var plan struct {
		Key        string
		Warnings   []string
		Interfaces []struct {
			Name string
			Here bool
		}
		Links []string
	}
	g.Must(t, http.MethodPost, "/backups/"+id+"/restore-plan", nil, 200, &plan)
	if plan.Key != "other" || len(plan.Warnings) != 3 || plan.Interfaces[0].Name != "elsewhere0" || plan.Interfaces[0].Here {
		t.Fatalf("%+v", plan)
	}
	g.Must(t, http.MethodPost, "/backups/"+id+"/restore", map[string]any{"interfaces": map[string]string{"elsewhere0": "spare0"}}, 200, nil)
	if r := g.ended(t); r.State != "done" || !strings.Contains(strings.Join(r.Warnings, " "), "Enter them again") {
		t.Fatalf("%+v", r)
	}
	g.login(t)
	var rows []struct{ Name string }
	g.Must(t, http.MethodGet, "/network-interfaces", nil, 200, &rows)
	names := []string{}
	for _, r := range rows {
		names = append(names, r.Name)
	}
	if !slices.Contains(names, "spare0") || slices.Contains(names, "elsewhere0") || !slices.Contains(names, "lan0") {
		t.Errorf("%q", names)
	}
}

func (g *gateway) archive(t *testing.T, id string) []byte {
	t.Helper()
	content, err := os.ReadFile(g.Path("/var/lib/gateway-backups/" + id + ".archive"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// BK05: a damaged archive is refused before anything stops, even if it was damaged after the API has checked it.
func TestBK05Damaged(t *testing.T) {
	g := up(t)
	s := g.server(t)
	b := g.back(t)
	before := contents(t, s)
	path := g.Path("/var/lib/gateway-backups/" + b.ID + ".archive")
	content := g.archive(t, b.ID)
	for i := 0; i < len(content); i += max(1, len(content)/20) {
		bad := bytes.Clone(content)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err := g.Do(t.Context(), http.MethodPost, "/backups/"+b.ID+"/restore", nil); err != nil || a.Status != 409 {
			t.Fatalf("byte %d: %+v %v", i, a, err)
		}
	}
	state, err := g.Units().State(t.Context(), host.API)
	if err != nil {
		t.Fatal(err)
	}
	// The job checks it again.
	g.Run(t, lab.Gateway, "sh", "-c", fmt.Sprintf(`echo '{"id": "1", "backup": "%s", "at": "2026-06-01T02:00:00Z"}' >%s`, b.ID, job.Restore.WishFile()))
	if err := g.Units().Start(t.Context(), host.Unit(job.Restore)); err != nil {
		t.Fatal(err)
	}
	if r := g.ended(t); r.State != "refused" || !strings.Contains(r.Reason, "damaged") {
		t.Fatalf("%+v", r)
	}
	if now, err := g.Units().State(t.Context(), host.API); err != nil || now.PID != state.PID {
		t.Errorf("the API was stopped: %+v %v", now, err)
	}
	same(t, "after a damaged archive", before, contents(t, s))
}

// A kill and a full disk at every point of a restore leave the whole old or the whole new state, whatever it was.
func TestKillAndFullDiskAtEveryPoint(t *testing.T) {
	g := up(t)
	s := g.server(t)
	g.pool(t, "10.1.1.1")
	g.backup = g.back(t)
	was := contents(t, s) // the data to restore
	key, err := os.ReadFile(g.Path("/var/lib/gateway/setup.json"))
	if err != nil {
		t.Fatal(err)
	}
	// After a kill the job continues, and a full disk takes it back.
	for _, action := range []string{"kill", "full"} {
		for i, point := range longtest.Some(t, 2, failpoint.Restore()) {
			when := action + " at " + point
			// A state that is another one than that of the backup, in a row and in a file.
			g.pool(t, fmt.Sprintf("10.9.%d.%d", i, len(action)*10+int(action[0])%10))
			const account = "/var/lib/gateway/acme/mark.json"
			mark := g.Path(account)
			g.Run(t, lab.Gateway, "sh", "-c", "mkdir -p /var/lib/gateway/acme && echo '{}' >"+account+" && chown -R gateway:gateway /var/lib/gateway/acme")
			g.WaitSettled(t)
			old := contents(t, s)
			if err := failpoint.Arm(g.Path(failpoints), point, action, ""); err != nil {
				t.Fatal(err)
			}
			g.Must(t, http.MethodPost, "/backups/"+g.backup.ID+"/restore", nil, 200, nil)
			r := g.ended(t)
			if _, err := os.Stat(filepath.Join(g.Path(failpoints), point)); err == nil {
				t.Fatalf("%s: it was not met: %+v", when, r)
			}
			g.login(t)
			now := contents(t, s)
			_, missing := os.Stat(mark)
			switch {
			case r.State == "done" && action == "kill":
				same(t, when, was, now)
				if missing == nil {
					t.Errorf("%s: the database is new, and a file is old", when)
				}
			case (r.State == "refused" || r.State == "taken_back") && action == "full":
				same(t, when, old, now)
				if missing != nil {
					t.Errorf("%s: the database is old, and a file is new", when)
				}
				if !strings.Contains(r.Reason, "no space left") {
					t.Errorf("%s: %s", when, r.Reason)
				}
			default:
				t.Fatalf("%s: %+v", when, r)
			}
			if setup, err := os.ReadFile(g.Path("/var/lib/gateway/setup.json")); err != nil || len(setup) == 0 || !bytes.Contains(setup, key[:20]) {
				t.Errorf("%s: the setup is %q", when, setup)
			}
			g.beside(t, when, s)
			t.Logf("%s: %s", when, r.State)
		}
	}
}
