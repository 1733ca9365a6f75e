package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/value"
)

// world has certificates in memory, and domains in the database that choose some of them.
type world struct {
	certificates []Certificate
	all, some    int // how often all of them, and some of them, were read
}

func (w *world) deps(d *Deps) {
	d.Certificates = func(context.Context, db.Querier) ([]Certificate, error) {
		w.all++
		return slices.Clone(w.certificates), nil
	}
	d.Rivals = func(_ context.Context, _ db.Querier, names []string, ids []uuid.UUID) (list []Certificate, err error) {
		w.some++
		for _, x := range w.certificates {
			if slices.Contains(ids, x.ID) || slices.ContainsFunc(x.Names, func(n value.SiteName) bool { return slices.Contains(names, n.String()) }) {
				list = append(list, x)
			}
		}
		return list, nil
	}
}

// The commands for a renewal, planned from its rivals alone, are those that all certificates and domains lead to.
func TestRenewalIsPlannedFromItsRivals(t *testing.T) {
	r, b := running(t, func(string) string { return "" })
	b.Stop() // only the plans of this test read anything
	w := &world{}
	w.deps(&r.deps)
	// The certificates of this test are not stored.
	dbtest.Exec(t, b.DB, "ALTER TABLE proxy_domains DROP CONSTRAINT proxy_domains_certificate_id_fkey, DROP CONSTRAINT proxy_domains_backend_id_fkey")
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	names := []string{"a.example.net", "b.example.net", "www.a.example.net", "*.example.net", "x.b.example.net", "*.b.example.net", "gw.example.net"}
	replaced, others, nothing, careful := 0, 0, 0, 0
	for round := range 200 {
		w.certificates = nil
		for i := range 1 + random.IntN(6) {
			x := Certificate{ID: uuid.UUID{15: byte(i + 1)}, PEM: fmt.Appendf(nil, "certificate %d", i), Trusted: random.IntN(3) > 0, NotAfter: time.Unix(random.Int64N(8), 0)}
			for _, n := range random.Perm(len(names))[:1+random.IntN(3)] {
				x.Names = append(x.Names, value.Must[value.SiteName](names[n]))
			}
			w.certificates = append(w.certificates, x)
		}
		dbtest.Exec(t, b.DB, "DELETE FROM proxy_domains")
		for i, n := range random.Perm(len(names) - 1)[:random.IntN(4)] {
			chosen := "NULL"
			if random.IntN(2) > 0 {
				chosen = "'" + w.certificates[random.IntN(len(w.certificates))].ID.String() + "'"
			}
			dbtest.Exec(t, b.DB, fmt.Sprintf(`INSERT INTO proxy_domains (id, created_at, updated_at, name, backend_id, active, http_to_https, disable_h3, hsts_enabled, hsts_max_age,
					hsts_include_subdomains, hsts_preload, rate_limit_enabled, rate_limit_requests, rate_limit_period_seconds, maintenance, max_body_size_bytes, www_redirect, notes, certificate_id)
				VALUES ('%s', now(), now(), '%s', '%s', %v, true, false, false, 0, false, false, false, 1, 1, false, 0, '%s', '', %s)`,
				uuid.UUID{15: byte(i + 1)}, names[n], uuid.UUID{}, random.IntN(4) > 0, []string{wwwNone, wwwToWWW, wwwToApex}[random.IntN(3)], chosen))
		}
		at := random.IntN(len(w.certificates))
		was := w.certificates[at]
		was.Trusted = true
		now := was
		now.PEM, now.NotAfter = []byte("renewed"), time.Unix(random.Int64N(8), 0)
		w.certificates[at] = now

		type plan struct {
			commands []command
			ok       bool
		}
		made := func(around func(context.Context, *db.Tx, *Certificate) ([]Domain, []Certificate, error)) (p plan) {
			t.Helper()
			err := b.DB.Write(t.Context(), func(tx *db.Tx) (err error) {
				p.commands, p.ok, err = r.planServed(t.Context(), tx, &was, &now, around)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		want, got := made(r.everyone), made(r.rivals)
		switch {
		case want.ok && !got.ok:
			careful++
		case want.ok != got.ok, want.ok && !reflect.DeepEqual(want.commands, got.commands):
			t.Fatalf("seed %d, round %d: %v instead of %v", seed, round, got, want)
		case !want.ok:
			others++
		case len(want.commands) == 0:
			nothing++
		default:
			replaced++
		}
	}
	t.Logf("%d are replaced, %d need a reload, %d are not served, %d are reloaded without need", replaced, others, nothing, careful)
	if replaced < 50 || others < 10 || nothing < 5 || careful > 10 {
		t.Error("too few of them, or too many")
	}
}

// A renewal reads no other certificates and domains, even if there are some that are chosen or that share a name.
func TestRenewalReadsOnlyItsRivals(t *testing.T) {
	r, b := running(t, func(string) string { return "" })
	b.Stop() // only the plans of this test read anything
	w := &world{}
	w.deps(&r.deps)
	for i := range 5 {
		w.certificates = append(w.certificates, Certificate{
			ID: uuid.UUID{15: byte(i + 1)}, PEM: fmt.Appendf(nil, "certificate %d", i), Trusted: true, Names: []value.SiteName{value.Must[value.SiteName](fmt.Sprintf("%d.example.net", i/2))},
		})
	}
	was, now := w.certificates[0], w.certificates[0]
	now.PEM, now.NotAfter = []byte("renewed"), time.Unix(1, 0)
	w.certificates[0] = now
	for _, x := range []struct {
		name      string
		was, now  *Certificate
		all, some int
	}{{"renewed", &was, &now, 0, 1}, {"the same", &was, &was, 0, 0}, {"new", nil, &now, 1, 0}} {
		w.all, w.some = 0, 0
		err := b.DB.Write(t.Context(), func(tx *db.Tx) error {
			_, _, err := r.planCertificate(t.Context(), tx, x.was, x.now)
			return err
		})
		if err != nil || w.all != x.all || w.some != x.some {
			t.Errorf("%s: all are read %d times, and some %d times (%v)", x.name, w.all, w.some, err)
		}
	}
}
