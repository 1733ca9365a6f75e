package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/setup"
)

// member is a whole gateway that may be in a cluster. Its callers are those of kittest.
type member struct {
	*kittest.Bench
	house *app.House
}

func join(t *testing.T, d *db.DB) member {
	t.Helper()
	b := kittest.NewOn(t, d)
	store, err := setup.OpenStore(b.Paths)
	if err != nil {
		t.Fatal(err)
	}
	h, err := app.Build(b.Kit, store, password.New(4))
	if err != nil {
		t.Fatal(err)
	}
	b.Router.SetupDone, b.Router.Sessions = func() bool { return true }, kittest.Roles{}
	b.Start(t)
	return member{b, h}
}

// members returns a primary and a standby.
func members(t *testing.T) (primary, standby member) {
	t.Helper()
	one, other := dbtest.Pair(t, dbtest.Server(t))
	primary, standby = join(t, one), join(t, other)
	if err := primary.house.Cluster.Found(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := standby.house.Cluster.Follow(t.Context(), cluster.Node{ID: "1", Name: "one.example.net"}, dbtest.Address(one), true); err != nil {
		t.Fatal(err)
	}
	return primary, standby
}

// A standby refuses changes of shared data and names the primary; it accepts changes of its own data, with an audit entry; and it
// applies what is replicated.
func TestStandby(t *testing.T) {
	t.Parallel()
	primary, standby := members(t)
	a := standby.Do(t, "admin", http.MethodPost, "/ntp/pools", `{"address":"refused.example.net"}`)
	if a.Want(t, 503); a.Error.Code != "unavailable" || !strings.Contains(string(a.Body), `"details":{"primary":"one.example.net"}`) {
		t.Errorf("%s", a.Body)
	}
	primary.Do(t, "admin", http.MethodPost, "/ntp/pools", `{"address":"taken.example.net"}`).Want(t, 201)
	waittest.Until(t, "the standby applies a change of the primary", func() bool {
		b, err := standby.Machine.Read(chrony.DropIn)
		return err == nil && strings.Contains(string(b), "pool taken.example.net ")
	})

	revision := func(n member) int64 {
		r, err := apply.Revision(t.Context(), n.DB, apply.NTP)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	before, there := revision(standby), revision(primary)
	standby.Do(t, "admin", http.MethodPut, "/ntp/settings", `{"makestep":"2.0 5"}`).Want(t, 200)
	if now := revision(standby); now != before+1 || revision(primary) != there {
		t.Errorf("a change of the standby alone counts %d to %d there and %d to %d at the primary", before, now, there, revision(primary))
	}
	if standby.Audited(t, "ntp.settings.update") != 1 || primary.Audited(t, "ntp.settings.update") != 0 {
		t.Error("the standby's own entry is not there, or there twice")
	}
	if differ, err := standby.house.Cluster.Drift(t.Context(), dbtest.Address(primary.DB)); err != nil || len(differ) > 0 {
		t.Errorf("%q %v", differ, err)
	}
	mine, err := standby.house.Cluster.Hash(t.Context())
	if theirs, bad := primary.house.Cluster.Hash(t.Context()); err != nil || bad != nil || mine.String() != theirs.String() || len(mine) < 20 {
		t.Errorf("%v %v: %v and %v", err, bad, mine, theirs)
	}
}

// A role that names no zone is reported as a problem, and does not stop the rest.
func TestZoneThatIsGone(t *testing.T) {
	t.Parallel()
	primary, standby := members(t)
	zone := uuid.Must(uuid.NewV7())
	dbtest.Exec(t, primary.DB, `INSERT INTO firewall_zones VALUES ($1, now(), now(), 'guests', '', false)`, zone)
	waittest.Until(t, "the zone is on the standby", func() bool {
		return standby.Do(t, "admin", http.MethodPost, "/network-interfaces", `{"name":"eth7","type":"ethernet","role":"guests"}`).Status == 201
	})
	standby.Do(t, "admin", http.MethodPost, "/network-interfaces", `{"name":"eth8","type":"ethernet","role":"nowhere"}`).Want(t, 400)
	dbtest.Exec(t, primary.DB, `DELETE FROM firewall_zones WHERE id = $1`, zone)
	waittest.Until(t, "the interface without a zone is told", func() bool {
		for _, s := range standby.Engine.Statuses() {
			if s.Name == apply.Network {
				return s.State == apply.Degraded && strings.Contains(s.LastError, "guests, which is gone")
			}
		}
		return false
	})
}

// A local change and a replicated one wait for each other: two states of a component never have the same revision, and both are
// applied.
func TestChangeMeetsArrival(t *testing.T) {
	primary, standby := members(t)
	written, proceed, stored := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := standby.Engine.CommitBoth(t.Context(), nil, []apply.ID{apply.NTP}, func(tx *db.Tx) ([]apply.Row, error) {
			_, err := tx.Exec(t.Context(), "UPDATE ntp_settings SET makestep = '3.0 7'")
			close(written)
			<-proceed
			return nil, err
		})
		stored <- err
	}()
	<-written
	primary.Do(t, "admin", http.MethodPost, "/ntp/pools", `{"address":"meets.example.net"}`).Want(t, 201)
	waittest.Until(t, "what arrives waits", func() bool {
		var waits bool
		err := standby.DB.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE d.datname = current_database() AND locktype = 'advisory' AND classid = 23 AND NOT granted)`).Scan(&waits)
		return err == nil && waits
	})
	close(proceed)
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "both are applied", func() bool {
		b, err := standby.Machine.Read(chrony.DropIn)
		return err == nil && strings.Contains(string(b), "pool meets.example.net ") && strings.Contains(string(b), "makestep 3.0 7")
	})
}
