package resource_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net/http"
	"testing"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

// slow is a field that has to be worked on before it is stored.
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

// Lamp has a slow field.
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
