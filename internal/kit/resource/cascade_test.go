package resource_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

// Shelf has books, which are deleted with it.
type Shelf struct {
	resource.Meta
	Name  string   `json:"name" required:"true"`
	Books []string `json:"books" readOnly:"true" db:"-"`
}

func (s *Shelf) Label() string { return s.Name }

type Book struct {
	resource.Meta
	ShelfID uuid.UUID `json:"shelf_id" required:"true"`
	Title   string    `json:"title" required:"true"`
}

func (b *Book) Label() string { return b.Title }

func library(t *testing.T) *kittest.Bench {
	t.Helper()
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, `
		CREATE TABLE shelves (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, name text NOT NULL);
		CREATE TABLE books (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
			shelf_id uuid NOT NULL CONSTRAINT books_shelf_id_fkey REFERENCES shelves ON DELETE CASCADE, title text NOT NULL);
		CREATE TABLE marks (id uuid PRIMARY KEY, book_id uuid NOT NULL REFERENCES books ON DELETE CASCADE, name text NOT NULL);
		CREATE TABLE readings (book_id uuid PRIMARY KEY REFERENCES books ON DELETE CASCADE, pages int NOT NULL)`)
	shelves := resource.Kind[Shelf]{
		Name: "shelf", Title: "shelf", Path: "/shelves", Table: "shelves", Order: "name", Joins: []string{"books"},
		Join: func(ctx context.Context, q db.Querier, rows []*Shelf) error {
			for _, row := range rows {
				if err := q.QueryRow(ctx, `SELECT coalesce(array_agg(title ORDER BY title), '{}') FROM books WHERE shelf_id = $1`, row.ID).Scan(&row.Books); err != nil {
					return err
				}
			}
			return nil
		},
	}
	shelves.Mount(b.Resources)
	books := resource.Kind[Book]{Name: "book", Title: "book", Path: "/books", Table: "books", Order: "title"}
	books.Mount(b.Resources)
	b.Resources.MountChangeSets()
	b.Start(t)
	return b
}

// The audit entry of a delete names the rows that the database deletes with it.
func TestDeleteNamesWhatGoesWithIt(t *testing.T) {
	b := library(t)
	const shelf, first, second, mark = "0192f000-0000-7000-8000-000000000001", "0192f000-0000-7000-8000-000000000002", "0192f000-0000-7000-8000-000000000003", "0192f000-0000-7000-8000-000000000004"
	b.Do(t, "admin", http.MethodPost, "/change-sets", `{"operations":[
		{"kind":"shelf","verb":"create","id":"`+shelf+`","body":{"name":"north"}},
		{"kind":"shelf","verb":"create","body":{"name":"south"}},
		{"kind":"book","verb":"create","id":"`+first+`","body":{"title":"a","shelf_id":"`+shelf+`"}},
		{"kind":"book","verb":"create","id":"`+second+`","body":{"title":"b","shelf_id":"`+shelf+`"}}]}`).Want(t, 200)
	dbtest.Exec(t, b.DB, `INSERT INTO marks VALUES ('`+mark+`', '`+second+`', 'middle'); INSERT INTO readings VALUES ('`+first+`', 7)`)
	details := func() (text string) {
		t.Helper()
		if err := b.DB.QueryRow(t.Context(), `SELECT (details - 'fields' - 'id' - 'change_set' - 'remote_ip')::text FROM audit_entries WHERE action LIKE '%.delete' ORDER BY id DESC LIMIT 1`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	b.Do(t, "admin", http.MethodDelete, "/shelves/"+shelf, nil).Want(t, 200)
	want := `{"with": [{"id": "` + first + `", "kind": "book", "name": "a"}, {"id": "` + second + `", "kind": "book", "name": "b"}, {"id": "` + mark + `", "kind": "marks", "name": "middle"}], "with_count": 3}`
	if got := details(); got != want {
		t.Errorf("%s instead of %s", got, want)
	}
	var left []Shelf
	b.Get(t, "/shelves").Into(t, &left)
	b.Do(t, "admin", http.MethodDelete, "/shelves/"+left[0].ID.String(), nil).Want(t, 200)
	if got := details(); got != `{}` {
		t.Errorf("nothing went along, but the entry says %s", got)
	}
}

// A cached list is detected as stale even if two of its tables have a row with the same id and the same writer.
func TestKeptListTellsTablesApart(t *testing.T) {
	b := library(t)
	id := uuid.NewString()
	set := func(verb, name string) {
		t.Helper()
		b.Do(t, "admin", http.MethodPost, "/change-sets", `{"operations":[
			{"kind":"shelf","verb":"`+verb+`","id":"`+id+`","body":{"name":"`+name+`"}},
			{"kind":"book","verb":"`+verb+`","id":"`+id+`","body":{"title":"`+name+`","shelf_id":"`+id+`"}}]}`).Want(t, 200)
		var list []Shelf
		if b.Get(t, "/shelves").Into(t, &list); len(list) != 1 || list[0].Name != name || list[0].Books[0] != name {
			t.Fatalf("after %s %s the list is %+v", verb, name, list)
		}
	}
	set("create", "a")
	set("update", "b")
}

// Faults about a change set are at the paths of its JSON.
func TestComplaintsNameThePathInTheSet(t *testing.T) {
	b := library(t)
	id := uuid.NewString()
	for _, x := range []struct{ operations, field string }{
		{`{"kind":"shelf","verb":"create","body":{"name":""}}`, "operations.0.body.name"},
		{`{"kind":"shelf","verb":"create","id":"` + id + `","body":{"name":"a"}},{"kind":"book","verb":"create","body":{"title":"","shelf_id":"` + id + `"}}`, "operations.1.body.title"},
		{`{"kind":"book","verb":"create","body":{"title":"a","shelf_id":"` + id + `"}}`, "operations.0.body.shelf_id"},
		{`{"kind":"shelf","verb":"create","body":{"name":"a"}},{"kind":"door","verb":"create","body":{}}`, "operations.1.kind"},
		{`{"kind":"shelf","verb":"open","body":{}}`, "operations.0.verb"},
		{`{"kind":"shelf","verb":"update","body":{"name":"a"}}`, "operations.0.id"},
		{`{"kind":"shelf","verb":"create","id":"00000000-0000-0000-0000-000000000000","body":{"name":"a"}}`, "operations.0.id"},
	} {
		for _, preview := range []string{"true", "false"} {
			a := b.Do(t, "admin", http.MethodPost, "/change-sets", `{"preview":`+preview+`,"operations":[`+x.operations+`]}`).WantField(t, x.field)
			if len(a.Error.Fields) != 1 {
				t.Errorf("%s: %v", x.field, a.Error.Fields)
			}
		}
	}
	b.Do(t, "admin", http.MethodPost, "/shelves", `{"name":""}`).WantField(t, "name")
	if b.Rows(t, "shelves") != 0 {
		t.Error("something was stored")
	}
}
