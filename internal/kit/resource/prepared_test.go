package resource_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

// slow is a field that takes work before it is stored.
type slow struct {
	given, stored string
	worked        *int
}

func (slow) IsZero() bool { return true }

func (s slow) Set() bool { return s.given != "" || s.stored != "" }

func (s *slow) UnmarshalText(b []byte) error { s.given, s.stored = string(b), ""; return nil }

func (slow) MarshalText() ([]byte, error) { return nil, fmt.Errorf("shown") }

func (s slow) Value() (driver.Value, error) { return s.stored, nil }

func (s *slow) Scan(src any) error { s.stored = src.(string); return nil }

func (s *slow) Prepare(context.Context) error {
	if s.given != "" {
		*s.worked++
		s.stored = "worked on " + s.given
	}
	return nil
}

type Lamp struct {
	resource.Meta
	Name string `json:"name" required:"true"`
	Slow slow   `json:"slow,omitzero" required:"true"`
}

func TestPreparedFieldsAreWorkedOnBeforeTheTransaction(t *testing.T) {
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, `CREATE TABLE lamps (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, name text NOT NULL, slow text NOT NULL)`)
	worked := 0
	kind := resource.Kind[Lamp]{Name: "lamp", Title: "lamp", Path: "/lamps", Table: "lamps", New: func() Lamp { return Lamp{Slow: slow{worked: &worked}} }}
	kind.Mount(b.Resources)
	b.Resources.MountChangeSets()
	b.Start(t)
	expect := func(stored string, work int) {
		t.Helper()
		list, err := kind.All(t.Context(), b.DB)
		if err != nil || len(list) != 1 || list[0].Slow.stored != stored || worked != work {
			t.Errorf("%+v after %d times, %v", list, worked, err)
		}
	}
	var lamp struct{ ID string }
	b.Do(t, "admin", http.MethodPost, "/lamps", `{"name":"a"}`).WantField(t, "slow")
	b.Do(t, "admin", http.MethodPost, "/lamps", `{"slow":"x"}`).WantField(t, "name")
	b.Do(t, "admin", http.MethodPost, "/lamps", `{"name":"a","slow":"one"}`).Want(t, 201).Into(t, &lamp)
	expect("worked on one", 1)
	b.Do(t, "admin", http.MethodPut, "/lamps/"+lamp.ID, `{"name":"b"}`).Want(t, 200)
	expect("worked on one", 1)
	b.Do(t, "admin", http.MethodPut, "/lamps/"+lamp.ID, `{"slow":"two"}`).Want(t, 200)
	expect("worked on two", 2)
	set := `{"preview":%v,"operations":[{"kind":"lamp","verb":"update","id":"` + lamp.ID + `","body":{"slow":"three"}}]}`
	b.Do(t, "admin", http.MethodPost, "/change-sets", fmt.Sprintf(set, true)).Want(t, 200)
	expect("worked on two", 2)
	b.Do(t, "admin", http.MethodPost, "/change-sets", fmt.Sprintf(set, false)).Want(t, 200)
	expect("worked on three", 3)
	b.Do(t, "admin", http.MethodPut, "/lamps/"+lamp.ID, `{"sl\u006fw":"four"}`).Want(t, 200)
	expect("worked on four", 4)
}

// Motor has a part that takes time to make.
type Motor struct {
	resource.Meta
	Name string `json:"name" required:"true"`
	Part string `json:"part" readOnly:"true"`

	made string
}

func TestRowsArePreparedBeforeTheTransaction(t *testing.T) {
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, `CREATE TABLE motors (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, name text NOT NULL, part text NOT NULL)`)
	worked, inside := 0, false
	kind := resource.Kind[Motor]{Name: "motor", Title: "motor", Path: "/motors", Table: "motors",
		Prepare: func(_ context.Context, was, now *Motor) (func(*Motor), error) {
			if inside || was != nil && was.Name == now.Name {
				t.Errorf("prepared in the transaction (%t), or for nothing: %+v", inside, was)
			}
			worked++
			part := fmt.Sprint(worked, " for ", now.Name)
			return func(m *Motor) { m.made = part }, nil
		},
		Check: func(_ context.Context, tx *db.Tx, _, now *Motor) error {
			if tx.Supposed() {
				now.made = "none"
			}
			now.Part = now.made
			return nil
		},
	}
	kind.Mount(b.Resources)
	b.Resources.MountChangeSets()
	b.Start(t)
	var motor Motor
	b.Do(t, "admin", http.MethodPost, "/motors", `{"name":1}`).WantField(t, "name")
	b.Do(t, "admin", http.MethodPost, "/motors", `{"name":"a"}`).Want(t, 201).Into(t, &motor)
	b.Do(t, "admin", http.MethodPut, "/motors/"+motor.ID.String(), `{"name":"b"}`).Want(t, 200).Into(t, &motor)
	if motor.Part != "2 for b" {
		t.Errorf("%+v", motor)
	}
	inside = true
	set := `{"preview":true,"operations":[{"kind":"motor","verb":"update","id":"` + motor.ID.String() + `","body":{"name":"c"}}]}`
	if a := b.Do(t, "viewer", http.MethodPost, "/change-sets", set).Want(t, 200); !strings.Contains(string(a.Data), `"part":"none"`) || worked != 2 {
		t.Errorf("%d times, %s", worked, a.Data)
	}
}

// Anyone who may try secrets could find the stored one: viewers may suppose neither changes with secrets, however those are
// named, nor large sets.
func TestViewersSupposeNoSecrets(t *testing.T) {
	b := bench(t)
	preview := func(role string, n int, body string) *kittest.Answer {
		t.Helper()
		op := `{"kind":"toy","verb":"create","body":` + body + `}`
		return b.Do(t, role, http.MethodPost, "/change-sets", `{"preview":true,"operations":[`+strings.Repeat(op+",", n-1)+op+`]}`)
	}
	for _, body := range []string{`{"name":"a","secret":"guess"}`, `{"name":"a","secr\u0065t":"guess"}`, `{"name":"a","secret":null}`} {
		preview("viewer", 1, body).Want(t, 403)
		preview("viewer", 2, body).Want(t, 403)
		preview("admin", 1, body).Want(t, 200)
	}
	preview("viewer", 1, `{"name":"a","note":"secret"}`).WantField(t, "operations.0.body.note")
	preview("viewer", 1, `{"name":"secret"}`).Want(t, 200)
	preview("viewer", 1, `{"name":`).Want(t, 400)
	preview("viewer", 101, `{"name":"a"}`).WantField(t, "operations")
	preview("viewer", 101, `{"name":"a","secret":"guess"}`).Want(t, 403)
	if b.Rows(t, "toys") != 0 {
		t.Error("a preview has stored something")
	}
}
