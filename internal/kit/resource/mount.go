package resource

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/wire"
)

// Deleted is the answer to a delete.
type Deleted struct {
	ID string `json:"id" doc:"Id of what was deleted."`
}

type route struct {
	registry         *Registry
	name, tag, title string
	read, write      httpd.Policy
	feeds            []string
	typ              reflect.Type
	defaults         map[string]any // of a new row
	below            bool           // the collection of one parent, beside that of all rows
}

func (k *kind) route(r *Registry) route {
	tag, _, _ := strings.Cut(k.Name, ".")
	x := route{registry: r, name: k.Name, tag: tag, title: k.Title, read: httpd.Read, write: httpd.Write.OnPrimary(), typ: k.typ, defaults: k.documented()}
	if k.Local {
		x.write = httpd.Write.Here()
	}
	if k.AdminOnly {
		x.read = httpd.AdminRead
	}
	for _, id := range k.Feeds {
		x.feeds = append(x.feeds, string(id))
	}
	return x
}

// documented returns the default values of a new row for the API documentation. It omits the priority, because a new row comes
// last, and the parent, which has no default.
func (k *kind) documented() map[string]any {
	text, err := wire.Encode(k.fresh())
	if err != nil {
		panic(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	delete(fields, k.Column)
	if k.ordered() {
		delete(fields, "priority")
	}
	return fields
}

// Inputs that the routes of a kind take from the URL. Routes that read also take a time.
type (
	noInput struct{}

	idInput struct {
		ID uuid.UUID `path:"id" doc:"Id of the row."`
	}

	parentInput struct {
		Parent uuid.UUID `path:"parent" doc:"Id of the parent."`
	}

	childInput struct {
		Parent uuid.UUID `path:"parent" doc:"Id of the parent."`
		ID     uuid.UUID `path:"id" doc:"Id of the row."`
	}

	atInput struct {
		At *time.Time `query:"at" doc:"Show what there was at this time."`
	}

	idAtInput struct {
		ID uuid.UUID  `path:"id" doc:"Id of the row."`
		At *time.Time `query:"at" doc:"Show the row as it was at this time."`
	}

	parentAtInput struct {
		Parent uuid.UUID  `path:"parent" doc:"Id of the parent."`
		At     *time.Time `query:"at" doc:"Show what there was at this time."`
	}

	childAtInput struct {
		Parent uuid.UUID  `path:"parent" doc:"Id of the parent."`
		ID     uuid.UUID  `path:"id" doc:"Id of the row."`
		At     *time.Time `query:"at" doc:"Show the row as it was at this time."`
	}
)

// reads maps an input to its variant for routes that read.
var reads = map[reflect.Type]reflect.Type{
	reflect.TypeFor[noInput](): reflect.TypeFor[atInput](), reflect.TypeFor[idInput](): reflect.TypeFor[idAtInput](),
	reflect.TypeFor[parentInput](): reflect.TypeFor[parentAtInput](), reflect.TypeFor[childInput](): reflect.TypeFor[childAtInput](),
}

func (x route) doc(verb, summary string) httpd.Doc {
	d := httpd.Doc{ID: x.name + "." + verb, Tag: httpd.Tag(x.tag), Summary: summary}
	if x.below {
		d.ID, d.Summary = x.name+".below."+verb, summary+" of the parent"
	}
	if verb != "list" && verb != "get" && verb != "history" {
		d.Audit, d.Feeds = x.name+"."+verb, x.feeds
	}
	return d
}

func (x route) list(path string, in reflect.Type, f func(c *httpd.Call, at *time.Time) (httpd.Encoded, error)) {
	x.registry.Router.Add(httpd.Route{Doc: x.doc("list", "List every "+x.title), Method: http.MethodGet, Path: path, Policy: x.read, In: reads[in],
		Out: &httpd.SchemaSource{Type: x.typ, List: true}}, func(c *httpd.Call) error {
		at, err := moment(c)
		if err != nil {
			return err
		}
		list, err := f(c, at)
		if err != nil {
			return err
		}
		return c.ReplyTagged(list)
	})
}

// moment returns the time that the request asks for; nil means now.
func moment(c *httpd.Call) (*time.Time, error) {
	var in atInput
	err := httpd.Query(c.Request, &in)
	return in.At, err
}

// history adds the route for the history of one row.
func (x route) history(path string, in reflect.Type, find func(c *httpd.Call) (*uuid.UUID, error)) {
	x.registry.Router.Add(httpd.Route{Doc: x.doc("history", "History of one "+x.title+", newest first"), Method: http.MethodGet, Path: path + "/history", Policy: x.read, In: in,
		Out: &httpd.SchemaSource{Type: reflect.TypeFor[RowPast](), List: true}}, func(c *httpd.Call) error {
		id, err := find(c)
		if err != nil {
			return err
		}
		list, err := x.registry.pastOf(c, x.registry.kinds[x.name], *id)
		if err != nil {
			return err
		}
		return c.Reply(list)
	})
}

func (x route) get(path string, in reflect.Type, f func(c *httpd.Call, at *time.Time) (wire.Raw, error)) {
	x.registry.Router.Add(httpd.Route{Doc: x.doc("get", "Read one "+x.title), Method: http.MethodGet, Path: path, Policy: x.read, In: reads[in],
		Out: &httpd.SchemaSource{Type: x.typ}}, func(c *httpd.Call) error {
		at, err := moment(c)
		if err != nil {
			return err
		}
		b, err := f(c, at)
		if err != nil {
			return err
		}
		return c.ReplyTagged(httpd.Encode(b))
	})
}

// create adds the route that creates rows. Rows live below home; with parent, they belong to the parent in the path.
func (x route) create(path, home string, in reflect.Type, parent bool) {
	doc := x.doc("create", "Create a "+x.title)
	doc.Creates = home + "/{id}"
	x.registry.Router.Add(httpd.Route{Doc: doc, Method: http.MethodPost, Path: path, Policy: x.write, In: in,
		Body: &httpd.SchemaSource{Type: x.typ, Suffix: "Create", New: true, Defaults: x.defaults}, Out: &httpd.SchemaSource{Type: x.typ}}, func(c *httpd.Call) error {
		op := Operation{Kind: x.name, Verb: "create"}
		if parent {
			id, err := httpd.PathID(c.Request, "parent")
			if err != nil {
				return err
			}
			op.parent = &id
		}
		change, err := x.commit(c, op)
		if err != nil {
			return err
		}
		c.Made(map[string]string{"id": change.ID})
		return c.ReplyTagged(httpd.Encode(change.After))
	})
}

func (x route) update(path string, in reflect.Type, find func(c *httpd.Call) (*uuid.UUID, error)) {
	x.registry.Router.Add(httpd.Route{Doc: x.doc("update", "Change a "+x.title), Method: http.MethodPut, Path: path, Policy: x.write, In: in, Matches: true,
		Body: &httpd.SchemaSource{Type: x.typ, Suffix: "Update"}, Out: &httpd.SchemaSource{Type: x.typ}}, x.change(find, nil))
}

// change updates a row and answers with its new state.
func (x route) change(find func(c *httpd.Call) (*uuid.UUID, error), notes []string) func(c *httpd.Call) error {
	return func(c *httpd.Call) error {
		id, err := find(c)
		if err != nil {
			return err
		}
		change, err := x.commit(c, Operation{Kind: x.name, Verb: "update", ID: id, notes: notes})
		if err != nil {
			return err
		}
		return c.ReplyTagged(httpd.Encode(change.After))
	}
}

// annotate adds the route that changes only notes, which feed no component.
func (x route) annotate(path string, in reflect.Type, find func(c *httpd.Call) (*uuid.UUID, error), notes []string) {
	doc := x.doc("update", "Change the notes of a "+x.title)
	doc.ID, doc.Feeds = x.name+".annotate", nil
	x.registry.Router.Add(httpd.Route{Doc: doc, Method: http.MethodPatch, Path: path, Policy: x.write, In: in, Matches: true,
		Body: &httpd.SchemaSource{Type: x.typ, Suffix: "Notes", Only: notes}, Out: &httpd.SchemaSource{Type: x.typ}}, x.change(find, notes))
}

func (x route) delete(path string, in reflect.Type, find func(c *httpd.Call) (*uuid.UUID, error)) {
	x.registry.Router.Add(httpd.Route{Doc: x.doc("delete", "Delete a "+x.title), Method: http.MethodDelete, Path: path, Policy: x.write, In: in, Matches: true,
		Out: &httpd.SchemaSource{Type: reflect.TypeFor[Deleted]()}}, func(c *httpd.Call) error {
		id, err := find(c)
		if err != nil {
			return err
		}
		change, err := x.commit(c, Operation{Kind: x.name, Verb: "delete", ID: id})
		if err != nil {
			return err
		}
		return c.Reply(Deleted{change.ID})
	})
}

// commit runs a change set of one operation with the request's body and precondition.
func (x route) commit(c *httpd.Call, op Operation) (Change, error) {
	if op.Verb != "delete" {
		body, err := httpd.ReadBody(c.Request)
		if err != nil {
			return Change{}, err
		}
		op.Body = body
	}
	op.ifMatch = c.Request.Header.Get("If-Match")
	list, outcome, err := x.registry.Commit(c, Set{Operations: []Operation{op}})
	if err != nil {
		return Change{}, err
	}
	Applied(c, outcome, list...)
	return list[0], nil
}

// Switch sets a boolean field of a singleton on behalf of a route with its own name, and reports in the answer's headers how far
// the components got.
func (r *Registry) Switch(c *httpd.Call, as Alias, kind, field string, on bool) error {
	body, err := wire.Encode(map[string]bool{field: on})
	if err != nil {
		return err
	}
	list, outcome, err := r.Commit(c, Set{Operations: []Operation{{Kind: kind, Verb: "update", Body: body}}, As: as})
	if err == nil {
		Applied(c, outcome, list...)
	}
	return err
}

// Applied sets the headers of an answer that report how far the components got, the change set, and its deadline for
// confirmation.
func Applied(c *httpd.Call, o apply.Outcome, list ...Change) {
	if len(o) > 0 {
		c.Header().Set("Gateway-Apply", o.Header())
	}
	for _, change := range list {
		if id := change.set(c); id != "" {
			c.Header().Set(httpd.ChangeSetHeader, id)
		}
		if !change.by.IsZero() {
			c.Header().Set(httpd.ConfirmByHeader, change.by.UTC().Format(time.RFC3339Nano))
		}
	}
}

func byID(c *httpd.Call) (*uuid.UUID, error) {
	id, err := httpd.PathID(c.Request, "id")
	return &id, err
}

func (k *Kind[T]) Mount(r *Registry) {
	k.kind = k.erased()
	k.kind.mount(r)
}

func (k *kind) mount(r *Registry) {
	k.register(r)
	k.mountFlat(k.route(r))
}

// mountFlat adds the routes of a collection and its rows.
func (k *kind) mountFlat(x route) {
	x.list(k.Path, reflect.TypeFor[noInput](), func(c *httpd.Call, at *time.Time) (httpd.Encoded, error) { return k.listed(c, x.registry, at) })
	x.create(k.Path, k.Path, reflect.TypeFor[noInput](), false)
	k.mountItem(x, k.Path+"/{id}", reflect.TypeFor[idInput](), byID)
}

// listed returns all rows, now or at a past time.
func (k *kind) listed(c *httpd.Call, r *Registry, at *time.Time) (httpd.Encoded, error) {
	if at == nil {
		return k.encodedList(c, r.DB)
	}
	list, err := k.at(c, r, *at, nil)
	if err != nil {
		return httpd.Encoded{}, err
	}
	return encode(list)
}

func (k *kind) mountItem(x route, path string, in reflect.Type, find func(c *httpd.Call) (*uuid.UUID, error)) {
	k.mountChanges(x, path, in, find)
	x.delete(path, in, find)
}

func (k *kind) mountChanges(x route, path string, in reflect.Type, find func(c *httpd.Call) (*uuid.UUID, error)) {
	x.get(path, in, func(c *httpd.Call, at *time.Time) (wire.Raw, error) {
		if at != nil {
			id, err := byID(c) // by id alone: the row may have another parent now, or none
			if err != nil {
				return nil, err
			}
			return k.pastAt(c, x.registry, *at, *id)
		}
		id, err := find(c)
		if err != nil {
			return nil, err
		}
		v, err := k.byID(c, x.registry.DB, *id)
		if err != nil {
			return nil, err
		}
		return k.encode(c, x.registry.DB, v)
	})
	x.history(path, in, byID)
	x.update(path, in, find)
	if k.Notes != nil {
		x.annotate(path, in, find, k.Notes)
	}
}

func (k *kind) views(ctx context.Context, q db.Querier, where string, args ...any) ([]record, error) {
	list, err := k.query(ctx, q, where, args...)
	if err != nil {
		return nil, err
	}
	for _, v := range list {
		k.complete(v)
	}
	return list, k.join(ctx, q, list...)
}

func (s *Singleton[T]) Mount(r *Registry) {
	k := Kind[T]{
		Apart: s.Apart, Name: s.Name, Title: s.Title, Table: s.Table, Feeds: s.Feeds, Local: s.Local, AdminOnly: s.AdminOnly,
		Unforeseen: s.Unforeseen, Prepare: s.Prepare, Check: s.Check, View: s.View,
	}
	s.kind = k.erased()
	s.kind.mountSingle(r, s.Path)
}

func (k *kind) mountSingle(r *Registry, path string) {
	k.single = true
	k.register(r)
	x := k.route(r)
	none := reflect.TypeFor[noInput]()
	x.get(path, none, func(c *httpd.Call, at *time.Time) (wire.Raw, error) {
		v, err := k.get(c, r.DB, "")
		if err != nil {
			return nil, err
		}
		if at != nil {
			return k.pastAt(c, r, *at, v.meta().ID)
		}
		return k.encode(c, r.DB, v)
	})
	x.history(path, none, func(c *httpd.Call) (*uuid.UUID, error) {
		v, err := k.get(c, r.DB, "")
		if err != nil {
			return nil, err
		}
		return &v.meta().ID, nil
	})
	x.update(path, none, func(*httpd.Call) (*uuid.UUID, error) { return nil, nil })
}

func (e *Extension[T]) Mount(r *Registry) {
	e.kind = e.erased()
	e.kind.mountExtension(r, e.Of)
}

func (k *kind) mountExtension(r *Registry, of string) {
	k.extends = of
	k.register(r)
	x := k.route(r)
	x.list(k.Path, reflect.TypeFor[noInput](), func(c *httpd.Call, at *time.Time) (httpd.Encoded, error) { return k.listed(c, r, at) })
	k.mountChanges(x, k.Path+"/{id}", reflect.TypeFor[idInput](), byID)
}

func (k *Child[T]) Mount(r *Registry) {
	k.kind = k.erased()
	k.kind.mountChild(r, k.Under, k.Column, k.Parent)
}

func (k *kind) mountChild(r *Registry, under, column, parent string) {
	k.Column, k.Parent = column, parent
	k.register(r)
	x := k.route(r)
	home := under
	if k.Path != "" {
		k.mountFlat(x)
		home, x.below = k.Path, true
	}
	x.list(under, reflect.TypeFor[parentInput](), func(c *httpd.Call, at *time.Time) (httpd.Encoded, error) {
		if at != nil {
			return k.listedBelow(c, r, *at)
		}
		parent, err := k.parent(c, r.DB)
		if err != nil {
			return httpd.Encoded{}, err
		}
		list, err := k.views(c, r.DB, " WHERE "+k.Column+" = $1", parent)
		if err != nil {
			return httpd.Encoded{}, err
		}
		return encode(list)
	})
	x.create(under, home, reflect.TypeFor[parentInput](), true)
	if k.Path != "" {
		return
	}
	owned := func(c *httpd.Call) (*uuid.UUID, error) {
		parent, err := httpd.PathID(c.Request, "parent")
		if err != nil {
			return nil, err
		}
		id, err := byID(c)
		if err != nil {
			return nil, err
		}
		var found bool
		err = r.DB.QueryRow(c, "SELECT EXISTS (SELECT FROM "+k.Table+" WHERE id = $1 AND "+k.Column+" = $2)", *id, parent).Scan(&found)
		if err == nil && !found {
			err = errNotFound(k.Title)
		}
		return id, err
	}
	k.mountItem(x, under+"/{id}", reflect.TypeFor[childInput](), owned)
}

// listedBelow returns the rows that a parent had at a past time.
func (k *kind) listedBelow(c *httpd.Call, r *Registry, at time.Time) (httpd.Encoded, error) {
	parent, err := httpd.PathID(c.Request, "parent")
	if err != nil {
		return httpd.Encoded{}, err
	}
	list, err := k.at(c, r, at, nil)
	if err != nil {
		return httpd.Encoded{}, err
	}
	return encode(slices.DeleteFunc(list, func(v record) bool { return k.parentOf(v).Interface() != parent }))
}

// parent returns the parent in the request's path, which must exist.
func (k *kind) parent(c *httpd.Call, q db.Querier) (uuid.UUID, error) {
	id, err := httpd.PathID(c.Request, "parent")
	if err != nil {
		return id, err
	}
	var found bool
	err = q.QueryRow(c, "SELECT EXISTS (SELECT FROM "+k.Parent+" WHERE id = $1)", id).Scan(&found)
	if err == nil && !found {
		err = fault.New(fault.NotFound, "The parent does not exist.")
	}
	return id, err
}

// adopt sets the parent of a new row to the one in its path.
func (k *kind) adopt(ctx context.Context, tx *db.Tx, v record, parent uuid.UUID) error {
	var found bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+k.Parent+" WHERE id = $1 FOR KEY SHARE)", parent).Scan(&found)
	if err == nil && !found {
		err = fault.New(fault.NotFound, "The parent does not exist.")
	}
	k.parentOf(v).Set(reflect.ValueOf(parent))
	return err
}

// parentOf returns the row's reference to its parent.
func (k *kind) parentOf(v record) reflect.Value {
	for _, f := range k.codec.fields {
		if f.Name == k.Column {
			return field(v, f)
		}
	}
	panic(k.Name + " has no column " + k.Column)
}

type ChangeSet struct {
	Operations    []Operation `json:"operations" required:"true" doc:"What to do, in order."`
	Preview       bool        `json:"preview" doc:"Save nothing; return what would change."`
	Reason        string      `json:"reason" maxLength:"500" doc:"Why, for the history and the audit log."`
	ConfirmWithin int         `json:"confirm_within" doc:"Seconds (10 to 600) to confirm the change set before it is reverted; 0 if it does not have to be confirmed."`
}

const maxOperations = 1000

// Validate rejects malformed operations.
func (s *ChangeSet) Validate() error {
	var c check.List
	c.That(len(s.Operations) > 0 && len(s.Operations) <= maxOperations, "operations", "must have 1 to %d items", maxOperations)
	for i, op := range s.Operations {
		c.That(slices.Contains([]string{"create", "update", "delete"}, op.Verb), fmt.Sprintf("operations.%d.verb", i), "must be one of create, update, delete")
	}
	return c.Err()
}

// Result is the answer to a change set.
type Result struct {
	Changes []Change         `json:"changes" doc:"What each operation did to its row."`
	Files   []apply.FileDiff `json:"files" doc:"What happens to the daemons' files; only in a preview."`
	Impact  []Impact         `json:"impact" doc:"Who is affected: one item for each area that the change can reach; only in a preview."`
}

// MountChangeSets adds the routes for change sets. Everyone may preview; only administrators may store.
func (r *Registry) MountChangeSets() {
	r.mountHistory()
	r.mountRevert()
	r.mountConfirm()
	r.mountDocument()
	r.mountDraft()
	doc := httpd.Doc{ID: "change-set.create", Tag: "system", Summary: "Run several changes as one, or preview them", Audit: "<kind>.<verb>", OnPrimary: r.OnPrimary}
	httpd.Handle(r.Router, http.MethodPost, "/change-sets", httpd.Own, doc, func(c *httpd.Call, in struct{ Body ChangeSet }) (Result, error) {
		set := Set{Operations: in.Body.Operations, Reason: in.Body.Reason, Listed: true}
		return r.Submit(c, set, in.Body.Preview, in.Body.ConfirmWithin)
	})
}
