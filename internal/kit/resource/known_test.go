package resource_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

// Cached rows match the database whoever writes: after manual changes, inside a transaction and after its rollback, when a row is
// changed twice in one, and when rows come and go.
func TestKeptRowsFollowEveryWriter(t *testing.T) {
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, `CREATE TABLE cards (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, name text NOT NULL, rank int NOT NULL)`)
	type Card struct {
		resource.Meta
		Name string `json:"name"`
		Rank int    `json:"rank"`
	}
	kind := resource.Kind[Card]{Name: "card", Title: "card", Path: "/cards", Table: "cards", Order: "rank, name"}
	kind.Mount(b.Resources)
	dbtest.Exec(t, b.DB, `INSERT INTO cards SELECT gen_random_uuid(), now(), now(), 'card ' || i, i % 7 FROM generate_series(1, 300) i`)

	ctx := t.Context()
	same := func(q db.Querier) {
		t.Helper()
		got, err := kind.All(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := q.Query(ctx, `SELECT id, name, rank FROM cards ORDER BY rank, name, id`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var want []string
		for rows.Next() {
			var id uuid.UUID
			var name string
			var rank int
			if err := rows.Scan(&id, &name, &rank); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprint(id, name, rank))
		}
		var have []string
		for _, c := range got {
			have = append(have, fmt.Sprint(c.ID, c.Name, c.Rank))
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatal(diff)
		}
	}
	change := func(q interface{ Queue(string, ...any) }) {
		switch rand.IntN(4) {
		case 0:
			q.Queue(`DELETE FROM cards WHERE id IN (SELECT id FROM cards ORDER BY random() LIMIT 3)`)
		case 1:
			q.Queue(`INSERT INTO cards VALUES (gen_random_uuid(), now(), now(), 'new', $1)`, rand.IntN(7))
		default:
			q.Queue(`UPDATE cards SET name = $1, rank = $2 WHERE id IN (SELECT id FROM cards ORDER BY random() LIMIT 5)`, fmt.Sprint(rand.IntN(1e6)), rand.IntN(7))
		}
	}
	taken := errors.New("taken back")
	for range 40 {
		err := b.DB.Write(ctx, func(tx *db.Tx) error {
			for range 3 {
				change(tx)
				if err := tx.Flush(ctx); err != nil {
					return err
				}
				same(tx)
			}
			if rand.IntN(2) == 0 {
				return taken
			}
			return nil
		})
		if err != nil && !errors.Is(err, taken) {
			t.Fatal(err)
		}
		same(b.DB)
	}
	// Few rows are not cached.
	dbtest.Exec(t, b.DB, `DELETE FROM cards WHERE rank > 2`)
	same(b.DB)
	same(b.DB)
}

// Notes can be changed alone, and feed no component.
func TestNotesFeedNothing(t *testing.T) {
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, tables)
	kind := toys()
	kind.Notes, kind.Feeds = []string{"tags"}, []apply.ID{apply.NTP}
	kind.Mount(b.Resources)
	apply.Register(b.Engine, apply.Component[int]{
		ID:     apply.NTP,
		Load:   func(context.Context, db.Querier) (int, error) { return 0, nil },
		Render: func(int) ([]host.File, error) { return nil, nil },
		Check:  func(context.Context, []host.File) error { return nil },
		Apply:  func(context.Context, int, []host.File) error { return nil },
		Verify: func(context.Context, int, []host.File) error { return nil },
	})
	b.Start(t)
	revision := func() int64 { return b.Engine.Statuses()[0].Revision }
	toy := create(t, b, `{"name":"a"}`)
	path := "/toys/" + toy.ID.String()
	before := revision()
	var got Toy
	a := b.Do(t, "admin", http.MethodPatch, path, `{"tags":["x"]}`).Want(t, 200)
	a.Into(t, &got)
	if len(got.Tags) != 1 || a.Header.Get("Gateway-Apply") != "" || before != 1 || revision() != before || b.Audited(t, "toy.update") != 1 {
		t.Errorf("%+v, %q, revisions %d to %d, %d entries", got, a.Header.Get("Gateway-Apply"), before, revision(), b.Audited(t, "toy.update"))
	}
	b.Do(t, "admin", http.MethodPatch, path, `{"tags":["y"],"count":5}`).WantField(t, "count")
	b.Do(t, "viewer", http.MethodPatch, path, `{"tags":["y"]}`).Want(t, 403)
	b.Do(t, "admin", http.MethodPatch, "/toys/"+uuid.NewString(), `{"tags":["y"]}`).Want(t, 404)
	b.Do(t, "admin", http.MethodPatch, path, `{"tags":["y"]}`, "If-Match", `"old"`).Want(t, 412)
	if b.Get(t, path).Into(t, &got); got.Count != 3 || got.Tags[0] != "x" {
		t.Errorf("%+v", got)
	}
}
