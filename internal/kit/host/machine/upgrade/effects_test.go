package upgrade

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/schema"
)

// real returns a machine below a root, with units in memory and a database whose owner is not a superuser.
func real(t *testing.T) (Machine, *hosttest.Machine) {
	t.Helper()
	root := t.TempDir()
	folder, err := job.OpenFolder(root, job.Upgrade, -1)
	if err != nil {
		t.Fatal(err)
	}
	role := "upgraded_" + strings.ToLower(rand.Text())
	super := dbtest.New(t)
	dbtest.Exec(t, super, "CREATE ROLE "+role+" LOGIN")
	url := dbtest.EmptyURL(t)
	name := url[strings.LastIndex(url, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	dbtest.Exec(t, super, "ALTER DATABASE "+name+" OWNER TO "+role)
	t.Cleanup(func() {
		// The database, which the role owns, is dropped after this.
		drop := "REASSIGN OWNED BY " + role + " TO CURRENT_USER; DROP OWNED BY " + role + "; DROP ROLE " + role
		if out, err := exec.Command("psql", "--no-psqlrc", "--quiet", "--command="+drop, url).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	units := hosttest.New()
	m := Machine{Folder: folder, Units: units, Database: asRole(t, url, role), State: filepath.Join(root, "var/lib/gateway")}
	if err := os.MkdirAll(m.State, 0o700); err != nil {
		t.Fatal(err)
	}
	return m, units
}

func asRole(t *testing.T, url, role string) string {
	t.Helper()
	before, after, ok := strings.Cut(url, "://")
	if !ok {
		t.Fatal(url)
	}
	if i := strings.Index(after, "@"); i >= 0 && i < strings.IndexAny(after+"/", "/") {
		after = after[i+1:]
	}
	return before + "://" + role + ":canary@" + after
}

// The command line, which every user can read, does not have the database's password.
func TestPasswordIsNoArgument(t *testing.T) {
	for _, address := range []string{
		"postgres://gateway:canary@db.example.net/gateway?sslmode=require", "postgres:///gateway?host=db.example.net&password=canary",
	} {
		p := Machine{Database: address}.client(shortly, psql, "--quiet")
		if strings.Contains(strings.Join(p.Argv, " "), "canary") || !slices.Equal(p.Env, []string{"PGPASSWORD=canary"}) ||
			len(p.Argv) != 3 || !strings.Contains(p.Argv[2], "db.example.net") {
			t.Errorf("%s: %q with %q", address, p.Argv, p.Env)
		}
	}
}

// execute changes a database as its owner.
func execute(t *testing.T, d *db.DB, sql string) {
	t.Helper()
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		for statement := range strings.SplitSeq(sql, ";") {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func attach(t *testing.T, url string) *db.DB {
	t.Helper()
	d, err := db.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	return d
}

// A restore brings back exactly what was backed up, whatever a newer version has changed. The programs do not run in the meantime.
func TestBackupAndRestore(t *testing.T) {
	m, units := real(t)
	d := attach(t, m.Database)
	execute(t, d, "UPDATE ntp_pools SET address = 'time.example.net' WHERE address = (SELECT min(address) FROM ntp_pools)")
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(m.State, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("setup.json", "one")
	if err := os.Symlink("/etc/shadow", filepath.Join(m.State, "link")); err != nil {
		t.Fatal(err)
	}
	if err := m.BackUp(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	if units.Stops(host.API) != 1 || units.Stops(host.Scheduler) != 1 || units.Starts(host.API) != 0 {
		t.Error("the programs run")
	}
	write("setup.json", "two")
	write("new.json", "two")
	execute(t, d, `DELETE FROM ntp_pools; CREATE SCHEMA later; CREATE TABLE later.things (id int PRIMARY KEY);
	CREATE TABLE newer (pool uuid REFERENCES ntp_pools (id), thing int REFERENCES later.things);
	ALTER TABLE ntp_pools DROP COLUMN prefer; INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`)
	for range 2 { // an interrupted restore is repeated
		if err := m.Restore(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
	}
	if units.Starts(host.API) != 2 {
		t.Error("the programs do not run again")
	}
	var pools int
	err := attach(t, m.Database).
		QueryRow(t.Context(), "SELECT count(*) FROM ntp_pools WHERE address = 'time.example.net' AND NOT prefer").Scan(&pools)
	if err != nil || pools != 1 {
		t.Errorf("%d pools, %v", pools, err)
	}
	err = d.QueryRow(t.Context(), "SELECT count(*) FROM pg_class WHERE relname IN ('newer', 'things')").Scan(&pools)
	if err != nil || pools != 0 {
		t.Errorf("%d tables of the newer version are left, %v", pools, err)
	}
	entries, err := os.ReadDir(m.State)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	content, err := os.ReadFile(filepath.Join(m.State, "setup.json"))
	if string(content) != "one" || !slices.Equal(names, []string{"link", "setup.json"}) {
		t.Errorf("%q, %v, %v", content, names, err)
	}
	if target, err := os.Readlink(filepath.Join(m.State, "link")); target != "/etc/shadow" {
		t.Errorf("a link was followed: %s %v", target, err)
	}
	info, err := os.Stat(filepath.Join(m.Folder.Path("backups"), "1", dumpFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("other users can read the backup: %v %v", info, err)
	}
}

// Restoring a damaged backup fails and changes nothing.
func TestRestoreOfADamagedBackup(t *testing.T) {
	m, _ := real(t)
	d := attach(t, m.Database)
	if err := m.BackUp(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	dump := filepath.Join(m.Folder.Path("backups"), "1", dumpFile)
	info, err := os.Stat(dump)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(dump, info.Size()/2); err != nil {
		t.Fatal(err)
	}
	execute(t, d, "CREATE TABLE newer (x int)")
	if err := m.Restore(t.Context(), "1"); err == nil || !strings.Contains(err.Error(), "pg_restore") {
		t.Fatal(err)
	}
	var n int
	if err := d.QueryRow(t.Context(), "SELECT count(*) FROM newer, ntp_pools").Scan(&n); err != nil {
		t.Error(err)
	}
}

// psql reads the output of pg_restore: a name that looks like a command of psql must be restored as a name, and not run.
func TestRestoreRunsNoNames(t *testing.T) {
	m, _ := real(t)
	d := attach(t, m.Database)
	mark := filepath.Join(os.TempDir(), rand.Text()[:8])
	t.Cleanup(func() { os.Remove(mark) })
	command := "\n\\! touch " + mark + "\n\\! #"
	if len(command) > 63 {
		t.Fatalf("%q is too long for a name", command)
	}
	name := pgx.Identifier{command}.Sanitize()
	execute(t, d, "CREATE SCHEMA "+name+"; CREATE TABLE "+name+"."+name+" ("+name+" text PRIMARY KEY DEFAULT E'\\n\\\\! touch "+mark+"'); "+
		"INSERT INTO "+name+"."+name+" DEFAULT VALUES; COMMENT ON TABLE "+name+"."+name+" IS E'\\n\\\\! touch "+mark+"'; "+
		"CREATE VIEW "+name+" AS SELECT * FROM "+name+"."+name)
	if err := m.BackUp(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	execute(t, d, "DROP SCHEMA "+name+" CASCADE")
	if err := m.Restore(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	var value string
	if err := d.QueryRow(t.Context(), "SELECT * FROM "+name).Scan(&value); err != nil || value != "\n\\! touch "+mark {
		t.Errorf("%q, %v", value, err)
	}
	if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a name was run: %v", err)
	}
}

// Without a database the backup fails at once, and so does the upgrade.
func TestBackupWithoutADatabase(t *testing.T) {
	m, _ := real(t)
	m.Database = "postgres:///gateway?host=" + t.TempDir()
	if err := m.BackUp(t.Context(), "1"); err == nil || !strings.HasPrefix(err.Error(), "the database cannot be backed up: pg_dump: ") {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(m.Folder.Path("backups"), "1", "*")); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func deb(t *testing.T, folder, name, version string) {
	t.Helper()
	tree := t.TempDir()
	if err := os.Mkdir(filepath.Join(tree, "DEBIAN"), 0o755); err != nil {
		t.Fatal(err)
	}
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nInstalled-Size: 300\n", name, version) +
		"Maintainer: Gateway <gateway@example.net>\nDescription: test\n"
	if err := os.WriteFile(filepath.Join(tree, "DEBIAN/control"), []byte(control), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, fmt.Sprintf("gateway_%s_all.deb", strings.ReplaceAll(version, ":", "%3a")))
	if out, err := exec.Command("dpkg-deb", "--build", "--root-owner-group", tree, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// A package that was fetched before is reused unless the file has changed.
func TestKeptPackages(t *testing.T) {
	m, _ := real(t)
	folder, err := m.folder("packages")
	if err != nil {
		t.Fatal(err)
	}
	deb(t, folder, "gateway", "1:1.0.0-1")
	deb(t, folder, "other", "1.0.1")
	p, err := m.Fetch(t.Context(), "1:1.0.0-1")
	if err != nil || p.Version != "1:1.0.0-1" || p.Unpacks != 300<<10 || len(p.SHA256) != 64 {
		t.Fatalf("%+v %v", p, err)
	}
	if _, err := m.kept(p); err != nil {
		t.Error(err)
	}
	// A file with the right name but another package is ignored; apt does not know the version.
	if _, err := m.Fetch(t.Context(), "1.0.1"); err == nil || !strings.Contains(err.Error(), "apt-get") {
		t.Error(err)
	}
	deb(t, folder, "gateway", "1.0.2")
	if err := m.Clean("", p, host.PackageFile{}); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) != 1 || filepath.Base(left[0]) != p.File {
		t.Errorf("%v is left", left)
	}
	if err := os.WriteFile(filepath.Join(folder, p.File), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(context.Context, host.PackageFile) error{"install": m.Install, "reinstall": m.Reinstall} {
		if err := do(t.Context(), p); err == nil || !strings.Contains(err.Error(), "has changed since it was fetched") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCleanKeepsTheLastBackups(t *testing.T) {
	m, _ := real(t)
	for i := range 6 {
		if _, err := m.folder("backups", strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Clean("1", host.PackageFile{}, host.PackageFile{}); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(m.Folder.Path("backups"), "*"))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if !slices.Equal(left, []string{"1", "3", "4", "5"}) {
		t.Error(left)
	}
}

// A version is ready when gateway-api reports it, the database is up, the components that were live are live again, and the console
// answers through HAProxy.
func TestReady(t *testing.T) {
	version, database, dns, console, holder := "1.1.0", "up", "live", "1.1.0", "haproxy"
	api := func(version *string) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("/api/v1/system/health", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"data":{"version":%q,"database":%q},"error":null}`, *version, database)
		})
		mux.HandleFunc("/api/v1/system/components", func(w http.ResponseWriter, _ *http.Request) {
			if dns == "" {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, `{"data":null,"error":{"code":"setup_required","message":"not set up yet"}}`)
				return
			}
			fmt.Fprintf(w, `{"data":[{"name":"reverse-proxy","state":"live"},{"name":"dns","state":%q},
			{"name":"dhcp","state":"not_installed"}],"error":null}`, dns)
		})
		return mux
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	control := &httptest.Server{Listener: l, Config: &http.Server{Handler: api(&version)}}
	control.Start()
	defer control.Close()
	proxy := httptest.NewTLSServer(api(&console))
	defer proxy.Close()
	s := job.Service{
		Control: socket, Port: proxy.Listener.Addr().(*net.TCPAddr).Port,
		Holders: func(int) ([]string, error) { return []string{holder}, nil },
	}
	wait := job.Waiting{Silence: time.Minute, Every: time.Millisecond}
	live := s.Live(t.Context(), wait)
	if !slices.Equal(live, []string{"dns", "reverse-proxy"}) {
		t.Fatal(live)
	}
	ready := func(want string) {
		t.Helper()
		if err := s.Ready(t.Context(), "1:1.1.0-2", live); err == nil != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %q", err, want)
		}
	}
	ready("")
	for _, c := range []struct {
		what *string
		is   string
		want string
	}{
		{&version, "1.0.0", "gateway-api is version 1.0.0"},
		{&database, "away", "has no database"},
		{&dns, "degraded", "dns is degraded"},
		{&console, "1.0.0", "the console does not answer through HAProxy"},
		{&holder, "gateway-api", "HAProxy does not hold port "},
	} {
		was := *c.what
		*c.what = c.is
		ready(c.want)
		*c.what = was
	}
	dns = ""
	if live := s.Live(t.Context(), wait); live == nil || len(live) != 0 {
		t.Errorf("before the setup: %v", live)
	}
	control.Close()
	ready("gateway-api does not answer")
}

// Live retries while the API does not answer or is still applying.
func TestLiveWaitsForTheAPI(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	s := job.Service{Control: socket}
	if live := s.Live(t.Context(), job.Waiting{Silence: time.Millisecond, Every: time.Millisecond}); live == nil || len(live) != 0 {
		t.Errorf("an API that is down: %v", live)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	api := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		dns := "live"
		switch requests++; requests {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			dns = "pending"
		}
		fmt.Fprintf(w, `{"data":[{"name":"ntp","state":"live"},{"name":"dns","state":%q},
			{"name":"dhcp","state":"degraded"}],"error":null}`, dns)
	})}}
	api.Start()
	defer api.Close()
	live := s.Live(t.Context(), job.Waiting{Silence: time.Minute, Every: time.Millisecond})
	if !slices.Equal(live, []string{"dns", "ntp"}) || requests != 3 {
		t.Errorf("%v, %d requests", live, requests)
	}
}
