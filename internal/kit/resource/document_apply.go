package resource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

const (
	yamlType, jsonType = "application/yaml", "application/json"
	schemaType         = "application/schema+json"
	// maxRehearsed limits how many operations are rehearsed, because a rehearsal must end soon.
	maxRehearsed = 2000
)

// Planned is what applying a document does.
type Planned struct {
	Changes   []DocumentChange `json:"changes" doc:"What is created, changed and deleted, in that order. Empty if there is nothing to do."`
	Unchanged int              `json:"unchanged" doc:"Rows of the document that are stored already."`
	Files     []apply.FileDiff `json:"files" doc:"What happens to the daemons' files; only in a plan."`
	Impact    []Impact         `json:"impact" doc:"Who is affected, as in the preview of a change set; only in a plan that was rehearsed."`
	Rehearsed bool             `json:"rehearsed" doc:"Whether the changes were tried. A plan of more than 2,000 changes is not; applying it still checks everything."`
	Basis     *uuid.UUID       `json:"basis" doc:"The newest change set; send it when you apply the document, and that is refused if another change comes in between."`
}

// out returns the answer. A row that is created in two steps is listed once.
func (p *planning) out() Planned {
	out := Planned{Changes: []DocumentChange{}, Files: []apply.FileDiff{}, Impact: []Impact{}, Unchanged: p.mentions, Basis: p.basis}
	seen := map[*DocumentChange]bool{}
	for i, c := range p.changes {
		if seen[c] {
			continue
		}
		seen[c] = true
		out.Changes = append(out.Changes, *c)
		if row := p.rowOf[i]; row != nil && (row.at.text != nil || row.at.node != nil) {
			out.Unchanged--
		}
	}
	return out
}

// rehearse finds an order in which all operations succeed, and drops those that change nothing.
func (p *planning) rehearse(ctx context.Context, impact bool) (Result, error) {
	out, err := p.Preview(ctx, p.set, impact)
	if failed, one := errors.AsType[*operationError](err); one && mayHelp(failed) {
		if err := p.settle(ctx); err != nil {
			return Result{}, err
		}
		out, err = p.Preview(ctx, p.set, impact)
	}
	if err != nil {
		return Result{}, p.named(err)
	}
	var keep []int
	list := out.Changes
	for i := range list {
		if list[i].Verb == "delete" {
			p.changes[i].With = list[i].with[:min(len(list[i].with), maxWith)]
		}
		if !list[i].idle {
			keep = append(keep, i)
		}
	}
	p.pick(keep)
	return out, nil
}

// pick keeps the given operations, in the given order.
func (p *planning) pick(order []int) {
	var set []Operation
	var changes []*DocumentChange
	var rows []*plannedRow
	for _, i := range order {
		set, changes, rows = append(set, p.set.Operations[i]), append(changes, p.changes[i]), append(rows, p.rowOf[i])
	}
	p.set.Operations, p.changes, p.rowOf = set, changes, rows
}

// mayHelp reports whether a failed operation might succeed in another order.
func mayHelp(err error) bool {
	kind := fault.From(err).Kind
	return kind != fault.Internal && kind != fault.Unavailable && !db.Passing(err)
}

// settle finds an order in which all operations succeed. Operations that are refused in any order are reported.
func (p *planning) settle(ctx context.Context) error {
	order, refused, err := p.order(ctx, p.set)
	if err != nil {
		return err
	}
	kind := fault.Invalid
	for _, i := range slices.Sorted(maps.Keys(refused)) {
		kind = refused[i].Kind
		p.blame(i, refused[i])
	}
	if len(refused) > 0 {
		return p.refused(kind)
	}
	p.pick(order)
	return nil
}

// order finds an order in which most operations succeed: those that are refused are retried after the rest. It returns those that
// are still refused separately.
func (r *Registry) order(ctx context.Context, set Set) (order []int, refused map[int]*fault.Error, err error) {
	refused = map[int]*fault.Error{}
	left := make([]int, len(set.Operations))
	for i := range left {
		left[i] = i
	}
	err = r.DB.Suppose(ctx, func(tx *db.Tx) error {
		for len(left) > 0 {
			var again []int
			clear(refused)
			for _, i := range left {
				err := r.try(ctx, tx, set.Operations[i])
				if err == nil {
					order = append(order, i)
					continue
				}
				if !mayHelp(err) {
					return err
				}
				refused[i] = fault.From(err)
				again = append(again, i)
			}
			if len(again) == len(left) {
				return nil
			}
			left = again
		}
		return nil
	}, func(context.Context) error { return nil })
	return order, refused, err
}

// try runs one operation, and rolls it back if it fails.
func (r *Registry) try(ctx context.Context, tx *db.Tx, op Operation) error {
	if _, err := tx.Exec(ctx, "SAVEPOINT tried"); err != nil {
		return err
	}
	_, err := r.kinds[op.Kind].run(ctx, r, tx, op)
	if err == nil {
		err = tx.Flush(ctx)
	}
	if err != nil {
		if _, back := tx.Exec(ctx, "ROLLBACK TO SAVEPOINT tried"); back != nil {
			return back
		}
		return db.Fault(err)
	}
	tx.Queue("RELEASE SAVEPOINT tried")
	return nil
}

// blame reports a fault about the row of an operation.
func (p *planning) blame(i int, f *fault.Error) {
	row := p.rowOf[i]
	if row == nil || row.s == nil {
		p.complain(DocumentComplaint{Kind: p.changes[i].Kind, Name: p.changes[i].Name, Message: f.Message})
		return
	}
	for field, text := range f.Fields {
		p.about(row, field, text)
	}
	if len(f.Fields) == 0 {
		p.about(row, "", f.Message)
	}
}

// named attributes the failure of an operation to its row.
func (p *planning) named(err error) error {
	failed, one := errors.AsType[*operationError](err)
	f, known := errors.AsType[*fault.Error](err)
	if !one || !known {
		return err
	}
	plain := *f
	plain.Fields = map[string]string{}
	for field, text := range f.Fields {
		plain.Fields[strings.TrimPrefix(field, fmt.Sprintf("operations.%d.body.", failed.place))] = text
	}
	p.blame(failed.place, &plain)
	return p.refused(f.Kind)
}

// planned plans and rehearses a document. With impact, it also assesses whom the changes affect.
func (r *Registry) planned(ctx context.Context, body []byte, prune, impact bool) (p *planning, out Planned, err error) {
	if p, err = r.planDocument(ctx, body, prune); err != nil {
		return nil, out, err
	}
	var tried Result
	rehearsed := len(p.set.Operations) <= maxRehearsed
	if err = r.MaySuppose(actor.From(ctx), p.set); err == nil && rehearsed && len(p.set.Operations) > 0 {
		tried, err = p.rehearse(ctx, impact)
	}
	if err != nil {
		return nil, out, err
	}
	out = p.out()
	out.Rehearsed = rehearsed
	out.Files, out.Impact = append(out.Files, tried.Files...), append(out.Impact, tried.Impact...)
	return p, out, nil
}

func (r *Registry) applyDocument(c *httpd.Call, body []byte, prune bool, basis *uuid.UUID) (Planned, error) {
	p, out, err := r.planned(c, body, prune, false)
	if err != nil {
		return Planned{}, err
	}
	if outdated(basis, p.basis) {
		return Planned{}, errMoved
	}
	p.set.first = func(tx *db.Tx) error { return r.checkBasis(c, tx, basis, nil) }
	out.Files = []apply.FileDiff{}
	if len(p.set.Operations) == 0 {
		return out, nil
	}
	p.set.Reason = changes.From(c).Reason
	list, outcome, err := r.Commit(c, p.set)
	if failed, one := errors.AsType[*operationError](err); one && !out.Rehearsed && mayHelp(failed) {
		if err := p.settle(c); err != nil {
			return Planned{}, err
		}
		list, outcome, err = r.Commit(c, p.set)
	}
	if err != nil {
		return Planned{}, p.named(err)
	}
	Applied(c, outcome, list...)
	return out, nil
}

func document(c *httpd.Call) ([]byte, error) {
	name := "A document"
	if c.Actor.Role != actor.Admin {
		name = "A document that is not sent by an administrator"
	}
	return c.Whole(name, int64(allowanceOf(c.Actor).bytes))
}

// documentOnPrimary decides where a document is applied: on the primary if it contains anything that all nodes share. A mix of
// shared and local kinds is refused on other nodes, as in change sets.
func (r *Registry) documentOnPrimary(c *httpd.Call) (bool, error) {
	body, err := document(c)
	if err != nil {
		return false, err
	}
	c.Request.Body = io.NopCloser(bytes.NewReader(body))
	w, err := readDocument(body, allowanceOf(c.Actor))
	if err != nil {
		return false, nil // the handler reports the error
	}
	var local []string
	shared := false
	for _, name := range w.kindsOf() {
		switch h := r.kinds[name]; {
		case h == nil:
		case h.Local:
			local = append(local, name)
		default:
			shared = true
		}
	}
	if len(local) == 0 || !shared {
		return shared, nil
	}
	var apart check.List
	for _, name := range local {
		apart.Add(name, "belongs to this node alone, and other kinds of the document to all nodes. Apply them apart, or on the primary")
	}
	return true, apart.Err()
}

type documentInput struct {
	Prune bool       `query:"prune" doc:"Delete rows of the kinds in the document that the document does not have. What comes with the gateway stays."`
	Basis *uuid.UUID `query:"basis" doc:"The basis of a plan: applying is refused if another change has been made since."`
}

func (r *Registry) mountDocument() {
	type exportInput struct {
		Kinds   string `query:"kinds" doc:"Kinds to export, separated by commas. By default all but users and single sign-on."`
		Secrets string `query:"secrets" doc:"sealed: encrypted, for gateways with the same master key (administrators only). omit: left out. By default sealed for administrators."`
	}
	r.Router.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "configuration.export", Tag: "system", Summary: "The configuration as a document: YAML, or JSON with Accept: application/json"},
		Method: http.MethodGet, Path: "/configuration", Policy: httpd.Read, In: reflect.TypeFor[exportInput](), MIME: yamlType,
	}, func(c *httpd.Call) error {
		var in exportInput
		if err := httpd.Query(c.Request, &in); err != nil {
			return err
		}
		admin := c.Actor.Role == actor.Admin
		switch {
		case !slices.Contains([]string{"", "sealed", "omit"}, in.Secrets):
			return fault.Field("secrets", "must be sealed or omit")
		case in.Secrets == "sealed" && !admin:
			return errAdmin
		}
		x := Export{Sealed: admin && in.Secrets != "omit", JSON: strings.Contains(c.Request.Header.Get("Accept"), jsonType)}
		if in.Kinds != "" {
			x.Kinds = strings.Split(in.Kinds, ",")
		}
		doc, err := r.Export(c, x)
		if err != nil {
			return err
		}
		if x.JSON {
			return c.ReplyRaw(jsonType, doc)
		}
		return c.ReplyRaw(yamlType, doc)
	})
	r.Router.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "configuration.schema", Tag: "system", Summary: "JSON Schema of the document"},
		Method: http.MethodGet, Path: "/configuration/schema", Policy: httpd.Read, In: reflect.TypeFor[struct{}](), MIME: schemaType,
	}, func(c *httpd.Call) error {
		schema, err := r.DocumentSchema(c)
		if err != nil {
			return err
		}
		return c.ReplyRaw(schemaType, schema)
	})
	add := func(id, path, summary, audit string, policy httpd.Policy, do func(c *httpd.Call, body []byte, in documentInput) (Planned, error)) {
		r.Router.Add(httpd.Route{
			Doc:    httpd.Doc{ID: id, Tag: "system", Summary: summary, Audit: audit, OnPrimary: r.documentOnPrimary},
			Method: http.MethodPost, Path: path, Policy: policy, In: reflect.TypeFor[documentInput](), Out: &httpd.SchemaSource{Type: reflect.TypeFor[Planned]()}, Takes: yamlType + ", " + jsonType,
		}, func(c *httpd.Call) error {
			var in documentInput
			if err := httpd.Query(c.Request, &in); err != nil {
				return err
			}
			body, err := document(c)
			if err != nil {
				return err
			}
			c.Unhurried()
			out, err := do(c, body, in)
			if err != nil {
				return err
			}
			return c.Reply(out)
		})
	}
	add("configuration.plan", "/configuration/plan", "What applying a document would change; nothing is saved", "", httpd.Own, func(c *httpd.Call, body []byte, in documentInput) (Planned, error) {
		_, out, err := r.planned(c, body, in.Prune, true)
		return out, err
	})
	add("configuration.apply", "/configuration/apply", "Make the configuration what a document says", "<kind>.<verb>", httpd.Write, func(c *httpd.Call, body []byte, in documentInput) (Planned, error) {
		return r.applyDocument(c, body, in.Prune, in.Basis)
	})
}
