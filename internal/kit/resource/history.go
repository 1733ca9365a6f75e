package resource

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/wire"
)

// Stored is a change set of the history.
type Stored struct {
	ID         uuid.UUID  `json:"id" doc:"Id of the change set."`
	CreatedAt  time.Time  `json:"created_at" doc:"When it was saved."`
	Actor      string     `json:"actor" doc:"Who made it: an e-mail address or the name of a program."`
	NodeID     string     `json:"node_id" doc:"Machine id of the node that made it."`
	RequestID  string     `json:"request_id" doc:"Id of the request, as in the audit log; empty for what the gateway does on its own."`
	Reason     string     `json:"reason" doc:"Why, if a reason was given."`
	Local      bool       `json:"local" doc:"Whether it is about this node alone."`
	State      string     `json:"state" enum:"none,waiting,confirmed,taken_back" doc:"What became of a change that had to be confirmed; none for all others."`
	ConfirmBy  *time.Time `json:"confirm_by" doc:"Until when it had to be confirmed; null for all others."`
	Reverts    *uuid.UUID `json:"reverts" doc:"The change set that it reverts; null if it reverts none."`
	RevertedBy *uuid.UUID `json:"reverted_by" doc:"The newest change set that reverts it; null if none does."`
	Kinds      []KindSum  `json:"kinds" doc:"How many rows of each kind it created, updated and deleted."`
	Components []string   `json:"components" doc:"Components that it was applied to."`
}

// KindSum is what a change set did to the rows of a kind.
type KindSum struct {
	Kind    string `json:"kind" doc:"Name of the kind."`
	Created int    `json:"created" doc:"Rows created."`
	Updated int    `json:"updated" doc:"Rows updated."`
	Deleted int    `json:"deleted" doc:"Rows deleted."`
}

// StoredWhole is a change set of the history with all that it did.
type StoredWhole struct {
	Stored
	Rows   []RowChange     `json:"rows" doc:"What it did to each row, in order."`
	Report []changes.Apply `json:"report" doc:"How the components took it, in the order of what happened. Empty on other nodes, and until it is known."`
}

// RowChange is what a change set did to a row.
type RowChange struct {
	Kind   string                 `json:"kind" doc:"Name of the kind."`
	ID     uuid.UUID              `json:"id" doc:"Which row."`
	Name   string                 `json:"name" doc:"What the row is called."`
	Verb   string                 `json:"verb" enum:"create,update,delete" doc:"What was done."`
	Fields map[string][2]wire.Raw `json:"fields" doc:"Fields that differ, before and after; without secrets."`
	Usual  []string               `json:"usual" doc:"Of a new row, the fields that are as in every new row."`
	// Secrets are the fields that differ and that the API never shows.
	Secrets []string `json:"secrets" doc:"Names of the secret fields that differ."`
	Hidden  bool     `json:"hidden" doc:"Only administrators may see what was changed."`
}

// RowPast is one entry of the history of a row.
type RowPast struct {
	RowChange
	ChangeSet uuid.UUID `json:"change_set" doc:"The change set that did it."`
	CreatedAt time.Time `json:"created_at" doc:"When it was done."`
	Actor     string    `json:"actor" doc:"Who did it."`
	Reason    string    `json:"reason" doc:"Why, if a reason was given."`
}

func (r *Registry) mountHistory() {
	httpd.Handle(r.Router, http.MethodGet, "/change-sets", httpd.Read, httpd.Doc{ID: "change-set.list", Tag: "system", Summary: "Change sets that match, newest first"}, func(c *httpd.Call, in struct {
		Actor     string    `query:"actor" doc:"Part of who made it."`
		Reason    string    `query:"reason" doc:"Part of the reason."`
		Kind      string    `query:"kind" doc:"A kind whose rows it changed, for example firewall.rule."`
		ID        uuid.UUID `query:"id" doc:"The row of that kind that it changed."`
		Component string    `query:"component" doc:"A component that it was applied to."`
		State     string    `query:"state" doc:"waiting, confirmed or taken_back."`
		From      time.Time `query:"from" doc:"Not before this time."`
		To        time.Time `query:"to" doc:"Not after this time."`
		Before    uuid.UUID `query:"before" doc:"Only change sets older than the one with this id, to read on."`
		Limit     int       `query:"limit" doc:"How many, at most 500; 100 if left out."`
	}) ([]Stored, error) {
		f := changes.Filter{Actor: in.Actor, Reason: in.Reason, Row: in.ID, Component: in.Component, State: in.State, From: in.From, To: in.To, Before: in.Before, Limit: in.Limit}
		var complaints check.List
		switch h := r.kinds[in.Kind]; {
		case in.Kind != "" && h == nil:
			complaints.Add("kind", "There is no kind %q.", in.Kind)
		case h != nil:
			f.Tables = []string{h.Table}
		case in.ID != uuid.Nil:
			complaints.Add("kind", "is required with id")
		}
		if f.Limit == 0 {
			f.Limit = 100
		}
		complaints.That(f.Limit > 0 && f.Limit <= changes.MaxLimit, "limit", "must be between 1 and %d", changes.MaxLimit)
		if err := complaints.Err(); err != nil {
			return nil, err
		}
		sets, err := r.Changes.Search(c, r.DB, f)
		list := make([]Stored, len(sets))
		for i, s := range sets {
			list[i] = r.stored(s)
		}
		return list, err
	})
	httpd.Handle(r.Router, http.MethodGet, "/change-sets/{id}", httpd.Read, httpd.Doc{ID: "change-set.get", Tag: "system", Summary: "Read one change set with all that it did"}, func(c *httpd.Call, in idInput) (StoredWhole, error) {
		return r.whole(c, in.ID)
	})
}

func (r *Registry) stored(s changes.Set) Stored {
	out := Stored{ID: s.ID, CreatedAt: s.CreatedAt, Actor: s.Actor, NodeID: s.NodeID, RequestID: s.RequestID, Reason: s.Reason, Local: s.Local, State: s.State, ConfirmBy: s.ConfirmBy, Reverts: s.Reverts, RevertedBy: s.RevertedBy,
		Kinds: []KindSum{}, Components: slices.Sorted(maps.Keys(s.Revisions))}
	for _, t := range s.Tables {
		if h := r.kindOf(t.Table); h != nil {
			out.Kinds = append(out.Kinds, KindSum{h.Name, t.Created, t.Updated, t.Deleted})
		}
	}
	if out.Components == nil {
		out.Components = []string{}
	}
	return out
}

// kindOf returns the kind of a table; nil if it belongs to none.
func (r *Registry) kindOf(table string) *kind {
	for _, h := range r.kinds {
		if h.Table == table {
			return h
		}
	}
	return nil
}

func (r *Registry) whole(ctx context.Context, id uuid.UUID) (out StoredWhole, err error) {
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		set, err := r.Changes.Get(ctx, tx, id)
		if err != nil {
			return err
		}
		rows, err := r.Changes.Rows(ctx, tx, id)
		if err != nil {
			return err
		}
		out.Stored = r.stored(set)
		if out.Rows, err = r.rowChanges(ctx, tx, rows); err != nil {
			return err
		}
		out.Report, err = r.Changes.Report(ctx, tx, set)
		return err
	})
	return out, err
}

// rowChanges describes what was done to rows.
func (r *Registry) rowChanges(ctx context.Context, q db.Querier, rows []changes.Row) ([]RowChange, error) {
	list := make([]RowChange, len(rows))
	byTable := map[string][]int{}
	for i, row := range rows {
		byTable[row.Table] = append(byTable[row.Table], i)
	}
	for table, places := range byTable {
		h := r.kindOf(table)
		if h == nil {
			for _, i := range places {
				list[i] = RowChange{Kind: table, ID: rows[i].ID, Verb: verbOf(rows[i]), Fields: map[string][2]wire.Raw{}, Usual: []string{}, Secrets: []string{}, Hidden: true}
			}
			continue
		}
		some := make([]changes.Row, len(places))
		for n, i := range places {
			some[n] = rows[i]
		}
		described, err := h.rowChanges(ctx, q, some)
		if err != nil {
			return nil, err
		}
		for n, i := range places {
			list[i] = described[n]
		}
	}
	return list, nil
}

func verbOf(row changes.Row) string {
	switch {
	case row.Was == nil:
		return "create"
	case row.Now == nil:
		return "delete"
	}
	return "update"
}

// rowChanges describes what was done to rows of the kind.
func (k *kind) rowChanges(ctx context.Context, q db.Querier, rows []changes.Row) ([]RowChange, error) {
	list := make([]RowChange, len(rows))
	hidden := k.AdminOnly && actor.From(ctx).Role != actor.Admin
	images, err := k.both(ctx, q, rows)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		x := RowChange{Kind: k.Name, ID: row.ID, Verb: verbOf(row), Fields: map[string][2]wire.Raw{}, Usual: []string{}, Secrets: []string{}, Hidden: hidden}
		was, now := images[i].was, images[i].now
		if x.Name = k.nameOf(now); now == nil {
			x.Name = k.nameOf(was)
		}
		if !hidden {
			if x.Fields, err = k.differences(was, now); err != nil {
				return nil, err
			}
			x.Secrets = k.secretsOf(was, now)
			if x.Verb == "create" {
				x.Usual = k.usual(now)
			}
		}
		list[i] = x
	}
	return list, nil
}

func (k *kind) nameOf(v record) string {
	switch {
	case v == nil:
		return ""
	case k.single:
		return k.Title
	}
	return labelOf(v)
}

// secretsOf lists the secret fields in which two rows differ.
func (k *kind) secretsOf(was, now record) []string {
	differ := []string{}
	for _, f := range k.codec.fields {
		if !f.Secret || !k.keeps(f.Name) {
			continue
		}
		set := func(v record) bool { return v != nil && field(v, f).Interface().(wire.WriteOnly).Set() }
		if was != nil && now != nil && !equal(f, was, now) || set(was) != set(now) {
			differ = append(differ, f.Name)
		}
	}
	return differ
}

// pair is a row before and after a change; nil where it does not exist.
type pair struct{ was, now record }

func (k *kind) both(ctx context.Context, q db.Querier, rows []changes.Row) ([]pair, error) {
	texts := make([][]byte, 0, 2*len(rows))
	for _, row := range rows {
		texts = append(texts, row.Was, row.Now)
	}
	images, err := k.images(ctx, q, texts)
	if err != nil {
		return nil, err
	}
	list := make([]pair, len(rows))
	for i := range rows {
		list[i] = pair{images[2*i], images[2*i+1]}
	}
	return list, nil
}

const mostPast = 200

// pastOf returns the history of one row, newest first.
func (r *Registry) pastOf(ctx context.Context, h *kind, id uuid.UUID) (list []RowPast, err error) {
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		rows, err := r.Changes.Of(ctx, tx, h.Table, id, mostPast)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			list = []RowPast{}
			_, err := h.byID(ctx, tx, id)
			return err
		}
		described, err := h.rowChanges(ctx, tx, rows)
		if err != nil {
			return err
		}
		who, err := r.Changes.Who(ctx, tx, rows)
		list = make([]RowPast, len(rows))
		for i, row := range rows {
			list[i] = RowPast{RowChange: described[i], ChangeSet: row.Set, CreatedAt: row.At, Actor: who[row.Set].Actor, Reason: who[row.Set].Reason}
		}
		return err
	})
	return list, err
}
