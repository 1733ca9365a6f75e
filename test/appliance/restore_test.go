package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
)

// lastRestore is what root has written down of a restore.
type lastRestore struct {
	ID, Backup, State, Reason, Step string
	Warnings                        []string
	Steps                           []struct{ Name, State, Error, Output string }
}

// restore restores a backup on a machine where the gateway's programs are neither root nor the database's superuser.
func restore(t *testing.T, g *appliance) {
	before := g.records(t)
	backup := g.backUp(t)
	zone := g.addZone(t, "later.example.net")
	g.Must(t, http.MethodPost, "/backups/"+backup+"/restore", nil, 200, nil)
	if r := g.restored(t, backup); r.State != "done" || len(r.Warnings) > 0 {
		t.Fatalf("%+v", r)
	}
	g.comesBack(t)
	if a, err := g.Do(t.Context(), http.MethodGet, "/dns/zones/"+zone, nil); err != nil || a.Status != 404 {
		t.Errorf("what came after the backup is still there: %+v %v", a, err)
	}
	if now := g.records(t); !slices.Equal(now, before) {
		t.Errorf("the zones are %q instead of %q", now, before)
	}
	g.leftNothing(t)
}

// powerCuts cuts the power in the middle of restores: after the next boot the machine has all of the old data, or all of the new.
func powerCuts(t *testing.T, g *appliance) {
	before := g.records(t)
	backup := g.backUp(t)
	for _, at := range []string{"verify", "load", "check", "swap", "confirm"} {
		t.Run(at, func(t *testing.T) {
			var changed []string
			// On a busy machine the check may come too late.
			for tries := 1; ; tries++ {
				g.addZone(t, fmt.Sprintf("%s-%d.example.net", at, tries))
				changed = g.records(t)
				err := g.cutAt(t, backup, at)
				if err == nil {
					break
				}
				if tries == 5 || !errors.Is(err, errTooLate) {
					t.Fatal(err)
				}
				g.restored(t, backup)
				g.comesBack(t)
			}
			r := g.restored(t, backup)
			g.comesBack(t)
			want := before
			if r.State != "done" {
				want = changed
			}
			if now := g.records(t); !slices.Equal(now, want) {
				t.Errorf("%s: the zones are %q instead of %q", r.State, now, want)
			}
			g.leftNothing(t)
		})
	}
}

var errTooLate = errors.New("the restore was further already")

// cutAt begins a restore, and cuts the power while it is at a step.
func (g *appliance) cutAt(t *testing.T, backup, step string) error {
	t.Helper()
	var begun struct{ ID string }
	g.Must(t, http.MethodPost, "/backups/"+backup+"/restore", nil, 200, &begun)
	steps := []string{"", "verify", "load", "check", "swap", "confirm"}
	return g.Cut(t.Context(), func(root string) (bool, error) {
		var r lastRestore
		content, _ := os.ReadFile(root + "/var/lib/gateway-restore/restore.json")
		if err := json.Unmarshal(content, &r); err != nil || r.ID != begun.ID {
			return false, nil // it has not begun yet
		}
		if r.State != "running" || slices.Index(steps, r.Step) > slices.Index(steps, step) {
			return false, errTooLate
		}
		return r.Step == step, nil
	})
}

// leftNothing complains about what a restore should have removed.
func (g *appliance) leftNothing(t *testing.T) {
	t.Helper()
	if left := g.sh(t, `runuser -u postgres -- psql -Atc "SELECT datname FROM pg_database WHERE datname LIKE 'gateway\_%'"; ls -A /var/lib/gateway-restore | grep -vx -e restore.json -e lock || true`); left != "" {
		t.Errorf("the restore has left %s", left)
	}
}

// backUp creates a backup, and returns its id.
func (g *appliance) backUp(t *testing.T) string {
	t.Helper()
	var b struct{ ID, Status, Error string }
	if g.Must(t, http.MethodPost, "/backups", nil, 201, &b); b.Status != "success" {
		t.Fatalf("%+v", b)
	}
	return b.ID
}

func (g *appliance) addZone(t *testing.T, name string) (id string) {
	t.Helper()
	var zone struct{ ID string }
	g.Must(t, http.MethodPost, "/dns/zones", fields{"name": name}, 201, &zone)
	return zone.ID
}

// records are the names of the zones.
func (g *appliance) records(t *testing.T) (names []string) {
	t.Helper()
	var zones []struct{ Name string }
	g.Must(t, http.MethodGet, "/dns/zones", nil, 200, &zones)
	for _, z := range zones {
		names = append(names, z.Name)
	}
	slices.Sort(names)
	return names
}

// readRestore reads what root has written down.
func (g *appliance) readRestore(t *testing.T) (r lastRestore) {
	t.Helper()
	if out, err := g.Run(t.Context(), "cat", "/var/lib/gateway-restore/restore.json"); err == nil {
		_ = json.Unmarshal([]byte(out), &r) // it is replaced as a whole, and may not exist yet
	}
	return r
}

// restored waits until a restore has ended.
func (g *appliance) restored(t *testing.T, backup string) (r lastRestore) {
	t.Helper()
	began := time.Now()
	waittest.Within(t, 8*time.Minute, "the restore ends", func() error {
		if _, err := g.Run(t.Context(), "test", "!", "-e", "/var/lib/gateway-restore/wish.json"); err != nil {
			return err
		}
		if r = g.readRestore(t); r.Backup != backup || r.State == "running" {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	t.Logf("%s after %s %s", r.State, time.Since(began).Round(time.Second), r.Reason)
	return r
}

// comesBack waits until the gateway works, with every component.
func (g *appliance) comesBack(t *testing.T) {
	t.Helper()
	g.waitUp(t)
	g.Login(t)
	g.allLive(t)
}
