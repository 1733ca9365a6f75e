package schema_test

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/db/peering"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/schema"
)

// installed is a PostgreSQL as on Debian: its superuser is postgres, and gateway is a role that owns its database.
type installed struct {
	socket string
	script string
}

func install(t *testing.T) *installed {
	t.Helper()
	s, err := private.StartCached(t.Context(), "bare", func(context.Context, *private.Server) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.ParseConfig(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	in := &installed{socket: conn.Host, script: filepath.Join(t.TempDir(), "gateway-database")}
	// The first superuser cannot be demoted. It is renamed instead.
	for _, x := range []struct{ role, sql string }{{private.User, "CREATE ROLE postgres SUPERUSER LOGIN"}, {"postgres", "ALTER ROLE " + private.User + " RENAME TO first"}} {
		if err := try(t.Context(), in.as(x.role, "postgres"), x.sql); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

func (in *installed) as(role, database string) string {
	return private.RoleURL(in.socket, database, role)
}

func try(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// run runs the package's script. What that does as the user postgres is done as the superuser of the test's server.
func (in *installed) run(t *testing.T) (output string, err error) {
	t.Helper()
	text, err := os.ReadFile("../../packaging/deb/share/gateway-database")
	if err != nil {
		t.Fatal(err)
	}
	functions, err := filepath.Abs("cluster/functions.sql")
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), "/usr/share/gateway/cluster.sql", functions))
	folder := filepath.Dir(in.script)
	setpriv := "#!/bin/sh\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec env PGHOST='" + in.socket + "' PGUSER=postgres \"$@\"\n"
	for path, content := range map[string]string{in.script: string(text), filepath.Join(folder, "setpriv"): setpriv} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", in.script)
	cmd.Env = []string{"PATH=" + folder + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// lesser fails the test if the gateway's role has gained privileges.
func (in *installed) lesser(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), in.as("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var super bool
	if err := conn.QueryRow(t.Context(), "SELECT rolsuper FROM pg_roles WHERE rolname = 'gateway'").Scan(&super); err != nil || super {
		t.Errorf("the gateway's role is a superuser: %v, %v", super, err)
	}
}

// climb makes the lesser role a superuser if it is run by one.
const climb = `BEGIN IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN ALTER ROLE gateway SUPERUSER; END IF; `

// Whatever the owner of the gateway's database puts there, a superuser does not run it.
func TestHostileOwner(t *testing.T) {
	// Functions and operators that precede those of PostgreSQL if the database controls the search path.
	shadows := `ALTER DATABASE gateway SET search_path = public, pg_catalog;
		CREATE OR REPLACE FUNCTION public.to_regclass(text) RETURNS regclass LANGUAGE plpgsql AS $$ ` + climb + `RETURN pg_catalog.to_regclass($1); END $$;
		CREATE OR REPLACE FUNCTION public.pg_has_role(name, name, text) RETURNS boolean LANGUAGE plpgsql AS $$ ` + climb + `RETURN false; END $$;
		CREATE OR REPLACE FUNCTION public.has_parameter_privilege(text, text, text) RETURNS boolean LANGUAGE plpgsql AS $$ ` + climb + `RETURN false; END $$;
		CREATE OR REPLACE FUNCTION public.current_setting(text) RETURNS text LANGUAGE plpgsql AS $$ ` + climb + `RETURN '150000'; END $$;
		CREATE OR REPLACE FUNCTION public.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS $$ ` + climb + `RETURN ''; END $$;
		CREATE OR REPLACE FUNCTION public.same(name, text) RETURNS boolean LANGUAGE plpgsql AS $$ ` + climb + `RETURN $1::text OPERATOR(pg_catalog.=) $2; END $$;
		DROP OPERATOR IF EXISTS public.= (name, text); CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = text, FUNCTION = public.same);
		DROP VIEW IF EXISTS public.pg_roles; CREATE VIEW public.pg_roles AS SELECT 'gateway'::name AS rolname, true AS rolsuper;
		CREATE TABLE IF NOT EXISTS public.waf_configs (x int); CREATE TABLE IF NOT EXISTS public.waf_alerts (x int); CREATE TABLE IF NOT EXISTS public.waf_requests (x int)`
	ownSchema := `CREATE SCHEMA gateway_cluster;
		CREATE FUNCTION gateway_cluster.admit() RETURNS void LANGUAGE plpgsql AS $$ ` + climb + `END $$;
		CREATE FUNCTION gateway_cluster.subscribed() RETURNS boolean LANGUAGE plpgsql AS $$ ` + climb + `RETURN true; END $$;
		CREATE FUNCTION gateway_cluster.reaches(conninfo text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'`
	in := install(t)
	if output, err := in.run(t); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	fresh := func(t *testing.T) {
		t.Helper()
		for _, sql := range []string{"DROP DATABASE IF EXISTS gateway WITH (FORCE)", "DROP DATABASE IF EXISTS aside WITH (FORCE)", "CREATE DATABASE gateway OWNER gateway"} {
			if err := try(t.Context(), in.as("postgres", "postgres"), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, x := range []struct {
		name    string
		before  string // run as the owner
		refused string // empty if the script succeeds nevertheless
	}{
		{"a search path", shadows, ""},
		{"a schema of its own", ownSchema, "belongs to the role gateway"},
		{"both", shadows + ";" + ownSchema, "belongs to the role gateway"},
		{"another role for all sessions", "ALTER DATABASE gateway SET role = gateway", "belongs to the role gateway"},
	} {
		t.Run(x.name, func(t *testing.T) {
			fresh(t)
			if err := try(t.Context(), in.as("gateway", "gateway"), x.before); err != nil {
				t.Fatal(err)
			}
			output, err := in.run(t)
			if (err != nil) != (x.refused != "") || !strings.Contains(output, x.refused) {
				t.Errorf("%v: %s", err, output)
			}
			in.lesser(t)
		})
	}
	t.Run("another database under the name", func(t *testing.T) {
		fresh(t)
		for _, x := range []struct{ database, sql string }{
			{"gateway", ownSchema}, {"postgres", "ALTER DATABASE gateway RENAME TO aside"}, {"postgres", "CREATE DATABASE gateway TEMPLATE aside"}, {"gateway", shadows},
		} {
			if err := try(t.Context(), in.as("gateway", x.database), x.sql); err != nil {
				t.Fatal(err)
			}
		}
		if output, err := in.run(t); err == nil || !strings.Contains(output, "belongs to the role gateway") {
			t.Errorf("%v: %s", err, output)
		}
		in.lesser(t)
	})
	t.Run("after the functions are there", func(t *testing.T) {
		fresh(t)
		if output, err := in.run(t); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		for _, sql := range []string{
			"DROP SCHEMA gateway_cluster CASCADE", "ALTER SCHEMA gateway_cluster OWNER TO gateway", "ALTER SCHEMA gateway_cluster RENAME TO other",
			"CREATE OR REPLACE FUNCTION gateway_cluster.reaches(conninfo text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'",
			"CREATE FUNCTION gateway_cluster.reaches(conninfo varchar) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
			"DROP EVENT TRIGGER gateway_subscription_stays", "ALTER EVENT TRIGGER gateway_subscription_stays DISABLE",
			"CREATE SUBSCRIPTION gateway CONNECTION 'host=/nowhere' PUBLICATION gateway WITH (connect = false)",
		} {
			if err := try(t.Context(), in.as("gateway", "gateway"), sql); err == nil {
				t.Errorf("the owner of the database may: %s", sql)
			}
		}
		if err := try(t.Context(), in.as("gateway", "gateway"), shadows); err != nil {
			t.Fatal(err)
		}
		for _, conninfo := range []string{
			"host=" + in.socket + " user=postgres dbname=gateway", "host=127.0.0.1 passfile=/etc/shadow", "service=x servicefile=/etc/shadow", "sslkey=/tmp/library:x host=192.0.2.1",
			peering.Conninfo("a.example.net", netip.MustParseAddr("192.0.2.1"), host.Place.Path) + " options=-crole=postgres",
			peering.Conninfo("a.example.net host=/run/postgresql", netip.MustParseAddr("192.0.2.1"), host.Place.Path), "",
			peering.Conninfo("a.example.net", netip.MustParseAddr("192.0.2.1"), host.Place.Path) + "\nuser=postgres",
		} {
			err := try(t.Context(), in.as("gateway", "gateway"), "SELECT gateway_cluster.subscribe('"+conninfo+"', 'gateway_x_1')")
			if err == nil || !strings.Contains(err.Error(), "subscribes only to another node") {
				t.Errorf("%q: %v", conninfo, err)
			}
		}
		for _, call := range []string{"unsubscribe()", "pause()", "resume()", "admit()", "listens()", "dismiss('{}', '{}')"} {
			if err := try(t.Context(), in.as("gateway", "gateway"), "SELECT gateway_cluster."+call); err != nil {
				t.Errorf("%s: %v", call, err)
			}
		}
		if output, err := in.run(t); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		in.lesser(t)
	})
}

// The function accepts what the gateway says about its primary.
func TestNodesAreReached(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, address := range []string{"192.0.2.1", "2001:db8::1"} {
		for _, name := range []string{"gateway", "gw-2.example.net", "GW2.Example.NET"} {
			var taken bool
			conninfo := peering.Conninfo(name, netip.MustParseAddr(address), host.Place.Path)
			if err := conn.QueryRow(t.Context(), "SELECT gateway_cluster.reaches($1)", conninfo).Scan(&taken); err != nil || !taken {
				t.Errorf("%s: %v, %v", conninfo, taken, err)
			}
		}
	}
}

// Privileges are granted once all grantees exist, which Grantees reports.
func TestGrantees(t *testing.T) {
	d, s := dbtest.Own(t)
	ask := func() (all bool) {
		t.Helper()
		if err := d.QueryRow(t.Context(), schema.Grantees).Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if ask() {
		t.Error("the agent has no role yet")
	}
	if err := s.CreateRole(t.Context(), "gateway-waf"); err != nil {
		t.Fatal(err)
	}
	if !ask() {
		t.Error("all have their roles")
	}
}
