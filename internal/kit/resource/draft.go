package resource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/wire"
)

const (
	draftTable = "change_drafts"
	// draftBytes is the maximum size of a draft.
	draftBytes = 4 << 20
	// draftTries is how often a change to a draft is tried when another window changes the draft at the same time.
	draftTries = 3
)

// Draft is a set of changes that a user has collected to apply at once.
type Draft struct {
	Version    *uuid.UUID       `json:"version" doc:"Changes with every change to the draft; null if there is no draft."`
	UpdatedAt  *time.Time       `json:"updated_at" doc:"When it was last changed; null if there is no draft."`
	Operations []DraftOperation `json:"operations" doc:"What it does, in order: one item for each row."`
}

// DraftOperation is what a draft does to one row.
type DraftOperation struct {
	Kind    string                 `json:"kind" doc:"Name of the kind."`
	Verb    string                 `json:"verb" enum:"create,update,delete" doc:"What is to be done."`
	ID      uuid.UUID              `json:"id" doc:"Which row. A new one has its id already, so that others can refer to it."`
	Name    string                 `json:"name" doc:"What the row is called."`
	AddedAt time.Time              `json:"added_at" doc:"When the row became part of the draft."`
	Before  wire.Raw               `json:"before" doc:"The row at that time; null if it is new."`
	After   wire.Raw               `json:"after" doc:"The row with the draft's changes; null if it is to be deleted."`
	Fields  map[string][2]wire.Raw `json:"fields" doc:"Fields that differ, before and after; without secrets."`
	Usual   []string               `json:"usual" doc:"Of a new row, the fields that are as in every new row."`
	Secrets []string               `json:"secrets" doc:"Names of the secret fields that are set."`
}

// DraftAdd is the body of an addition to a draft.
type DraftAdd struct {
	Operations []Operation `json:"operations" required:"true" doc:"What to add, in order. A second operation on a row becomes one with the first."`
}

// Validate rejects malformed operations.
func (a *DraftAdd) Validate() error { return (&ChangeSet{Operations: a.Operations}).Validate() }

// DraftOptions are the options of a draft's preview.
type DraftOptions struct {
	Choices []Choice `json:"choices" doc:"What to take for each conflict with a change that someone else has made since."`
	Take    string   `json:"take" enum:",then,now" doc:"What to take for the conflicts that have no choice of their own."`
}

// DraftApply is the body that applies a draft.
type DraftApply struct {
	DraftOptions
	// Basis and Version are those of the preview that the caller has seen.
	Basis         *uuid.UUID `json:"basis" doc:"The basis of a preview: the draft is not applied if another change has been made since."`
	Version       *uuid.UUID `json:"version" doc:"The version of a preview: the draft is not applied if it has another one by now."`
	Reason        string     `json:"reason" maxLength:"500" doc:"Why, for the history and the audit log."`
	ConfirmWithin int        `json:"confirm_within" doc:"Seconds (10 to 600) to confirm the changes before they are reverted; 0 if they do not have to be confirmed."`
}

// DraftResult is what a draft would do or has done.
type DraftResult struct {
	Result
	Conflicts []Conflict   `json:"conflicts" doc:"Changes by others that the draft meets."`
	Refused   []Unrestored `json:"refused" doc:"Rows that cannot be changed as the draft says, and why. The draft cannot be applied while there are some."`
	Basis     *uuid.UUID   `json:"basis" doc:"The newest change set; send it when you apply the draft, so that it is refused if another change comes in between."`
	Version   *uuid.UUID   `json:"version" doc:"Version of the draft."`
}

// drafted is the stored form of a draft's operation.
type drafted struct {
	Kind string    `json:"kind"`
	Verb string    `json:"verb"`
	ID   uuid.UUID `json:"id"`
	// Body has the fields to change, or those of a new row. Changes by others to the remaining fields are kept.
	Body wire.Raw `json:"body,omitzero"`
	// Base is the database row when it became part of the draft.
	Base wire.Raw  `json:"base,omitzero"`
	At   time.Time `json:"at"`
	// Node is the node that has the row, if it is local to one.
	Node string `json:"node,omitzero"`
}

type draft struct {
	user    uuid.UUID
	version uuid.UUID // zero if there is no draft
	updated time.Time
	list    []drafted
}

func (d *draft) find(kind string, id uuid.UUID) int {
	return slices.IndexFunc(d.list, func(x drafted) bool { return x.Kind == kind && x.ID == id })
}

var (
	errNoUser     = fault.New(fault.Conflict, "A draft belongs to a user. Log in, or use the API token of a user.")
	errNoDraft    = fault.New(fault.Conflict, "There is no draft, or there is nothing in it.")
	errDraftMoved = fault.New(fault.Stale, "The draft has been changed in the meantime. Look at it again.")
	errLocalDraft = fault.New(fault.Conflict, "This belongs to this node alone, and the primary applies drafts. Save it without the draft.")
	errDraftLarge = fault.New(fault.Conflict, "The draft is too large. Apply it, or remove something from it.")
)

// mountDraft adds the routes of the caller's draft. Users who may change nothing have none.
func (r *Registry) mountDraft() {
	doc := func(id, summary, audit string) httpd.Doc {
		return httpd.Doc{ID: "draft." + id, Tag: "system", Summary: summary, Audit: audit}
	}
	httpd.Handle(r.Router, http.MethodGet, "/draft", httpd.AdminRead, doc("get", "Your draft: changes that you have collected and not applied yet", ""), func(c *httpd.Call, _ struct{}) (Draft, error) {
		d, err := r.draftOf(c, r.DB, c.Actor.UserID)
		if err != nil {
			return Draft{}, err
		}
		return r.showDraft(c, d)
	})
	add := doc("add", "Add changes to your draft", "draft.add")
	add.OnPrimary = r.draftOnPrimary
	httpd.Handle(r.Router, http.MethodPost, "/draft/operations", httpd.Write, add, func(c *httpd.Call, in struct{ Body DraftAdd }) (Draft, error) {
		return r.changeDraft(c, "draft.add", func(d *draft) ([]drafted, error) { return r.addToDraft(c, d, in.Body.Operations) })
	})
	httpd.Handle(r.Router, http.MethodDelete, "/draft/operations/{kind}/{id}", httpd.Write.OnPrimary(), doc("remove", "Remove what your draft does to one row", "draft.remove"), func(c *httpd.Call, in struct {
		Kind string    `path:"kind" doc:"Name of the kind."`
		ID   uuid.UUID `path:"id" doc:"Id of the row."`
	}) (Draft, error) {
		return r.changeDraft(c, "draft.remove", func(d *draft) ([]drafted, error) {
			i := d.find(in.Kind, in.ID)
			if i < 0 {
				return nil, fault.New(fault.NotFound, "The draft does nothing to this row.")
			}
			gone := d.list[i]
			d.list = slices.Delete(d.list, i, i+1)
			return []drafted{gone}, nil
		})
	})
	httpd.Handle(r.Router, http.MethodDelete, "/draft", httpd.Write.OnPrimary(), doc("discard", "Discard your draft", "draft.discard"), func(c *httpd.Call, _ struct{}) (Draft, error) {
		err := r.DB.Write(c, func(tx *db.Tx) error {
			tag, err := tx.Exec(c, "DELETE FROM "+draftTable+" WHERE user_id = $1", c.Actor.UserID)
			if err != nil || tag.RowsAffected() == 0 {
				return err
			}
			return r.Audit.Write(c, tx, "draft.discard", c.Actor.Name, nil)
		})
		return Draft{Operations: []DraftOperation{}}, err
	})
	httpd.Handle(r.Router, http.MethodPost, "/draft/preview", httpd.AdminRead.OnPrimary(), doc("preview", "Show what your draft would do now, without saving anything", ""), func(c *httpd.Call, in struct{ Body *DraftOptions }) (DraftResult, error) {
		if in.Body == nil {
			in.Body = &DraftOptions{}
		}
		out, _, err := r.planDraft(c, *in.Body, nil, true)
		return out, err
	})
	httpd.Handle(r.Router, http.MethodPost, "/draft/apply", httpd.Write.OnPrimary(), doc("apply", "Apply your draft as one change set", "<kind>.<verb>"), func(c *httpd.Call, in struct{ Body *DraftApply }) (DraftResult, error) {
		if in.Body == nil {
			in.Body = &DraftApply{}
		}
		return r.applyDraft(c, *in.Body)
	})
}

// draftOnPrimary sends drafts to the primary. It refuses rows that are local to another node, which the primary cannot change.
func (r *Registry) draftOnPrimary(c *httpd.Call) (bool, error) {
	var in struct{ Operations []struct{ Kind string } }
	if err := c.Peek(&in); err != nil {
		return false, err
	}
	for _, op := range in.Operations {
		if h := r.kinds[op.Kind]; h != nil && h.Local {
			return true, errLocalDraft
		}
	}
	return true, nil
}

func (r *Registry) draftOf(ctx context.Context, q db.Querier, user uuid.UUID) (*draft, error) {
	if user == uuid.Nil {
		return nil, errNoUser
	}
	d := &draft{user: user}
	var content []byte
	err := q.QueryRow(ctx, "SELECT version, updated_at, content FROM "+draftTable+" WHERE user_id = $1", user).Scan(&d.version, &d.updated, &content)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return d, nil
	case err != nil:
		return nil, err
	}
	plain, err := r.Secrets.Open(content, draftTable, "content", user.String())
	if err == nil {
		err = json.Unmarshal([]byte(plain), &d.list)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Conflict, err, "The draft cannot be read. It was made by another version of the gateway or with another master key. Discard it.")
	}
	return d, nil
}

// changeDraft changes the draft of the caller. f returns the operations that it changed.
func (r *Registry) changeDraft(c *httpd.Call, action string, f func(d *draft) ([]drafted, error)) (Draft, error) {
	for try := 1; ; try++ {
		d, err := r.draftOf(c, r.DB, c.Actor.UserID)
		if err != nil {
			return Draft{}, err
		}
		changed, err := f(d)
		if err != nil {
			return Draft{}, err
		}
		err = r.keepDraft(c, d, action, changed)
		if errors.Is(err, errDraftMoved) && try < draftTries {
			continue
		}
		if err != nil {
			return Draft{}, err
		}
		return r.showDraft(c, d)
	}
}

// keepDraft stores a draft, unless someone else has stored it since it was read.
func (r *Registry) keepDraft(ctx context.Context, d *draft, action string, changed []drafted) error {
	plain, err := json.Marshal(d.list)
	if err != nil {
		return err
	}
	if len(plain) > draftBytes {
		return errDraftLarge
	}
	content, err := r.Secrets.Seal(string(plain), draftTable, "content", d.user.String())
	if err != nil {
		return err
	}
	was := d.version
	if d.version, err = uuid.NewV7(); err != nil {
		return err
	}
	d.updated = r.Clock.Now()
	view, err := r.showDraft(ctx, &draft{list: slices.DeleteFunc(changed, func(x drafted) bool { return x.ID == uuid.Nil })})
	if err != nil {
		return err
	}
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		if len(d.list) == 0 {
			if err := dropDraft(ctx, tx, d.user, was); err != nil {
				return err
			}
			d.version = uuid.Nil
		} else if err := storeDraft(ctx, tx, d, was, content); err != nil {
			return err
		}
		for _, x := range view.Operations {
			if err := r.Audit.Write(ctx, tx, action, x.Name, map[string]any{"kind": x.Kind, "id": x.ID, "verb": x.Verb}); err != nil {
				return err
			}
		}
		return nil
	})
}

func storeDraft(ctx context.Context, tx *db.Tx, d *draft, was uuid.UUID, content []byte) error {
	tag, err := tx.Exec(ctx, "INSERT INTO "+draftTable+` AS d (user_id, updated_at, version, content) VALUES ($1, $2, $3, $4)
		ON CONFLICT (user_id) DO UPDATE SET updated_at = $2, version = $3, content = $4 WHERE d.version = $5`, d.user, d.updated, d.version, content, was)
	if err == nil && tag.RowsAffected() == 0 {
		err = errDraftMoved
	}
	return err
}

// dropDraft deletes a draft if it still has the given version.
func dropDraft(ctx context.Context, tx *db.Tx, user, version uuid.UUID) error {
	if version == uuid.Nil {
		return nil
	}
	tag, err := tx.Exec(ctx, "DELETE FROM "+draftTable+" WHERE user_id = $1 AND version = $2", user, version)
	if err == nil && tag.RowsAffected() == 0 {
		err = errDraftMoved
	}
	return err
}

// addToDraft adds operations, and rejects those that could not be applied now.
func (r *Registry) addToDraft(ctx context.Context, d *draft, ops []Operation) ([]drafted, error) {
	if _, _, err := r.feeds(Set{Operations: ops}); err != nil {
		return nil, err
	}
	var added []drafted
	for i, op := range ops {
		x, err := r.addOne(ctx, d, op)
		if err != nil {
			return nil, at(Set{Listed: true}, i, err)
		}
		added = append(added, x)
	}
	if len(d.list) > maxOperations {
		return nil, fault.New(fault.Conflict, "A draft has at most %d changes. Apply it, or remove some of them.", maxOperations)
	}
	// Earlier operations may no longer be possible; the preview reports those.
	v := &inverse{RevertOptions: RevertOptions{Take: "then"}}
	if err := r.DB.Snapshot(ctx, func(tx *db.Tx) error { return r.rebase(ctx, tx, v, d) }); err != nil {
		return nil, err
	}
	err := r.Suppose(ctx, v.set, func(*db.Tx) error { return nil })
	failed, one := errors.AsType[*operationError](err)
	if !one {
		return added, err
	}
	whose := v.names[failed.place]
	i := slices.IndexFunc(added, func(x drafted) bool { return x.Kind == whose.Kind && x.ID == whose.ID })
	if i < 0 {
		return added, nil
	}
	return nil, moved(failed.error, failed.place, i)
}

// moved renumbers the complaints about one operation.
func moved(err error, from, to int) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || len(f.Fields) == 0 {
		return err
	}
	named := *f
	named.Fields = map[string]string{}
	for field, text := range f.Fields {
		if rest, mine := strings.CutPrefix(field, fmt.Sprintf("operations.%d.", from)); mine {
			field = fmt.Sprintf("operations.%d.%s", to, rest)
		}
		named.Fields[field] = text
	}
	return &named
}

// addOne merges an operation into what the draft already does to the row. The result has no id if nothing changes.
func (r *Registry) addOne(ctx context.Context, d *draft, op Operation) (drafted, error) {
	h := r.kinds[op.Kind]
	i := -1
	var earlier *drafted
	switch {
	case h.single:
		i = slices.IndexFunc(d.list, func(x drafted) bool { return x.Kind == op.Kind })
	case op.ID != nil:
		i = d.find(op.Kind, *op.ID)
	}
	if i >= 0 {
		earlier = &d.list[i]
	}
	now, err := h.draft(ctx, r, r.DB, op, earlier)
	switch {
	case err != nil:
		return drafted{}, err
	case now == nil && earlier == nil:
		return drafted{}, nil
	case now == nil: // the operations cancel out
		gone := *earlier
		d.list = slices.Delete(d.list, i, i+1)
		return gone, nil
	case earlier == nil:
		d.list = append(d.list, *now)
	case now.Verb == "delete" && earlier.Verb != "delete":
		d.list = append(slices.Delete(d.list, i, i+1), *now) // what made the delete possible comes first
	default:
		d.list[i] = *now
	}
	return *now, nil
}

func (r *Registry) showDraft(ctx context.Context, d *draft) (Draft, error) {
	out := Draft{Operations: make([]DraftOperation, len(d.list))}
	if d.version != uuid.Nil {
		out.Version, out.UpdatedAt = &d.version, &d.updated
	}
	err := r.byKind(d, func(h *kind, places []int, some []drafted) error {
		views, err := h.showDraft(ctx, r.DB, some)
		for n, i := range places {
			if err == nil {
				out.Operations[i] = views[n]
			}
		}
		return err
	})
	return out, err
}

// byKind groups the operations of a draft by kind, and calls f once for each kind.
func (r *Registry) byKind(d *draft, f func(h *kind, places []int, some []drafted) error) error {
	var kinds []string
	places, some := map[string][]int{}, map[string][]drafted{}
	for i, x := range d.list {
		if r.kinds[x.Kind] == nil {
			return fault.New(fault.Conflict, "The draft cannot be read: there is no kind %q. It was made by another version of the gateway. Discard it.", x.Kind)
		}
		if places[x.Kind] == nil {
			kinds = append(kinds, x.Kind)
		}
		places[x.Kind], some[x.Kind] = append(places[x.Kind], i), append(some[x.Kind], x)
	}
	for _, kind := range kinds {
		if err := f(r.kinds[kind], places[kind], some[kind]); err != nil {
			return err
		}
	}
	return nil
}

// rebase plans what a draft does to the current rows.
func (r *Registry) rebase(ctx context.Context, tx *db.Tx, v *inverse, d *draft) error {
	v.out.Conflicts, v.out.Unrestored, v.out.Result = []Conflict{}, []Unrestored{}, Result{Changes: []Change{}, Files: []apply.FileDiff{}, Impact: []Impact{}}
	planned := make([]rebased, len(d.list))
	err := r.byKind(d, func(h *kind, places []int, some []drafted) error {
		since := make([]changes.Row, len(some))
		for i, x := range some {
			since[i] = changes.Row{Table: h.Table, ID: x.ID, At: x.At}
		}
		slices.SortFunc(since, func(a, b changes.Row) int { return b.At.Compare(a.At) }) // laterEdits takes the time of the last one
		if err := r.laterEdits(ctx, tx, v, since); err != nil {
			return err
		}
		list, err := h.rebase(ctx, tx, v, some)
		for n, i := range places {
			if err != nil {
				return err
			}
			planned[i] = list[n]
			if list[n].now != nil {
				v.expect(some[n].Kind, some[n].ID, list[n].now)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	v.set.Listed = true
	for i, x := range planned {
		switch node := d.list[i].Node; {
		case x.op == nil:
		case node != "" && node != r.Changes.Node():
			x.name.Reason = "It belongs to another node, which was the primary when it was added to the draft."
			v.out.Unrestored = append(v.out.Unrestored, x.name)
		default:
			v.set.Operations, v.names = append(v.set.Operations, *x.op), append(v.names, x.name)
		}
	}
	return r.nest(ctx, tx, v)
}

// planDraft works out what the draft of the caller does now.
func (r *Registry) planDraft(c *httpd.Call, o DraftOptions, basis *uuid.UUID, impact bool) (out DraftResult, set Set, err error) {
	v := &inverse{RevertOptions: RevertOptions{Preview: impact, Choices: o.Choices, Take: o.Take}}
	var d *draft
	err = r.DB.Snapshot(c, func(tx *db.Tx) (err error) {
		if d, err = r.draftOf(c, tx, c.Actor.UserID); err != nil {
			return err
		}
		if v.out.Basis, err = r.Changes.Newest(c, tx); err != nil {
			return err
		}
		return r.rebase(c, tx, v, d)
	})
	if err != nil {
		return out, set, err
	}
	if len(d.list) == 0 {
		return out, set, errNoDraft
	}
	if err := r.rehearse(c, v); err != nil {
		return out, set, err
	}
	out = DraftResult{Result: v.out.Result, Conflicts: v.out.Conflicts, Refused: v.out.Unrestored, Basis: v.out.Basis, Version: &d.version}
	v.set.first = func(tx *db.Tx) error {
		if err := r.checkBasis(c, tx, basis, v.rows); err != nil {
			return err
		}
		return dropDraft(c, tx, d.user, d.version)
	}
	return out, v.set, nil
}

// Drafted returns what the draft of the caller would do now, for a supposition.
func (r *Registry) Drafted(c *httpd.Call) (Set, error) {
	_, set, err := r.planDraft(c, DraftOptions{Take: "then"}, nil, false)
	return set, err
}

// applyDraft applies the draft of the caller, and deletes it in the same transaction.
func (r *Registry) applyDraft(c *httpd.Call, in DraftApply) (DraftResult, error) {
	if err := confirmWithin(c, in.ConfirmWithin); err != nil {
		return DraftResult{}, err
	}
	out, set, err := r.planDraft(c, in.DraftOptions, in.Basis, false)
	if err != nil {
		return DraftResult{}, err
	}
	switch {
	case in.Version != nil && *in.Version != *out.Version:
		return DraftResult{}, errDraftMoved
	case outdated(in.Basis, out.Basis):
		return DraftResult{}, errMoved
	case slices.ContainsFunc(out.Conflicts, func(x Conflict) bool { return x.Taken == "" }):
		return DraftResult{}, &fault.Error{Kind: fault.Conflict, Message: "Someone else changed the same fields. Choose for each conflict which version to take.", Details: map[string]any{"conflicts": out.Conflicts}}
	case len(out.Refused) > 0:
		return DraftResult{}, &fault.Error{Kind: fault.Conflict, Message: "Some changes cannot be made. Change them, or remove them from the draft.", Details: map[string]any{"refused": out.Refused}}
	}
	out.Files, out.Impact = []apply.FileDiff{}, []Impact{}
	if len(set.Operations) == 0 { // everything is as wanted already
		return out, r.DB.Write(c, set.first)
	}
	intent := changes.From(c)
	intent.Reason = cmp.Or(in.Reason, intent.Reason)
	set.Reason = intent.Reason
	var outcome apply.Outcome
	if out.Changes, outcome, err = r.Commit(changes.With(c, intent), set); err != nil {
		return DraftResult{}, err
	}
	Applied(c, outcome, out.Changes...)
	return out, nil
}
