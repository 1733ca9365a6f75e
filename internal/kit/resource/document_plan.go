package resource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// DocumentChange is what a document does to one row.
type DocumentChange struct {
	Kind string `json:"kind" doc:"Name of the kind."`
	Name string `json:"name" doc:"What the row is called."`
	Verb string `json:"verb" enum:"create,update,delete" doc:"What is done."`
	Line int    `json:"line" doc:"Line of the row in the document; 0 if there is none."`
	// Fields are in document form: references are names.
	Fields  map[string][2]wire.Raw `json:"fields" doc:"Fields that differ, before and after, as documents have them; without secrets. position is the place of a row among those that have an order."`
	Secrets []string               `json:"secrets" doc:"Names of the secret fields that are set."`
	With    []User                 `json:"with" doc:"What a delete takes along."`
}

// DocumentComplaint is a problem in a document, and its location.
type DocumentComplaint struct {
	Kind    string `json:"kind" doc:"Name of the kind."`
	Name    string `json:"name" doc:"What the row is called."`
	Field   string `json:"field" doc:"Which field; empty if it is about the row as a whole."`
	Line    int    `json:"line" doc:"Line in the document; 0 if there is none."`
	Message string `json:"message" doc:"What is wrong, as a sentence."`
}

// planning compares a document with what is stored.
type planning struct {
	*catalogue
	written  *written
	reader   reader
	prune    bool
	admin    bool
	rows     []*plannedRow
	fresh    map[uuid.UUID]*plannedRow // rows to create
	wrong    []DocumentComplaint
	set      Set
	changes  []*DocumentChange // for each operation
	rowOf    []*plannedRow     // for each operation; nil if its row is not in the document
	basis    *uuid.UUID
	mentions int // number of rows in the document
}

type plannedRow struct {
	s      *section
	at     writtenRow
	index  int
	entry  *entry // the stored row; nil for a new one
	same   bool   // the row is stored already
	id     uuid.UUID
	name   string
	fields map[string]jsontext.Value // in document form
	lines  map[string]int
	body   map[string]jsontext.Value // in the form of the kind's route
	rank   *int64                    // new priority
	moved  [2]int                    // place before and after
}

const maxComplaints = 100

// planDocument works out what a document does. It queues for a turn, because every reader may ask for a plan.
func (r *Registry) planDocument(ctx context.Context, body []byte, prune bool) (*planning, error) {
	done, err := r.DB.Turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	most := allowanceOf(actor.From(ctx))
	w, err := readDocument(body, most)
	if err != nil {
		return nil, err
	}
	p, err := r.planWritten(ctx, w, prune)
	if errors.Is(err, errFragment) {
		if w, err = readYAML(body, most); err != nil {
			return nil, err
		}
		p, err = r.planWritten(ctx, w, prune)
	}
	return p, err
}

func (r *Registry) planWritten(ctx context.Context, w *written, prune bool) (p *planning, err error) {
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		c, err := r.catalogue(ctx, tx, true)
		if err != nil {
			return err
		}
		p = &planning{catalogue: c, written: w, reader: reader{w.allowance}, prune: prune, admin: actor.From(ctx).Role == actor.Admin, fresh: map[uuid.UUID]*plannedRow{}}
		p.set.Listed = true
		if p.basis, err = r.Changes.Newest(ctx, tx); err != nil {
			return err
		}
		return p.run(ctx)
	})
	return p, err
}

func (p *planning) run(ctx context.Context) error {
	kinds := map[*section]*writtenKind{}
	for i := range p.written.kinds {
		k := &p.written.kinds[i]
		if k.name == formKey {
			if err := k.form(); err != nil {
				return err
			}
			continue
		}
		s := p.byName[k.name]
		switch {
		case s == nil:
			p.complain(DocumentComplaint{Kind: k.name, Line: k.line, Message: fmt.Sprintf("There is no kind %q.", k.name)})
			continue
		case s.AdminOnly && !p.admin:
			return errAdmin
		case s.single && (k.list || len(k.rows) != 1):
			p.complain(DocumentComplaint{Kind: k.name, Line: k.line, Message: "There is exactly one. Write its fields, not a list."})
			continue
		case !s.single && !k.list:
			p.complain(DocumentComplaint{Kind: k.name, Line: k.line, Message: "This must be a list of rows."})
			continue
		}
		kinds[s] = k
	}
	for _, s := range p.sections {
		if k := kinds[s]; k != nil {
			if err := p.match(ctx, s, k); err != nil {
				return err
			}
		}
	}
	for _, row := range p.rows {
		if row.same {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := p.compare(row); err != nil {
			return err
		}
	}
	if len(p.wrong) > 0 {
		return p.refused(fault.Invalid)
	}
	return p.operations(kinds)
}

func (p *planning) complain(c DocumentComplaint) {
	c.Message = fault.Complaint(c.Message)
	p.wrong = append(p.wrong, c)
}

func (p *planning) about(row *plannedRow, field, message string) {
	line := row.at.line
	top, _, _ := strings.Cut(field, ".")
	if n := row.lines[top]; n > 0 {
		line = n
	}
	p.complain(DocumentComplaint{Kind: row.s.Name, Name: row.name, Field: field, Line: line, Message: message})
}

// refused returns the error that lists what is wrong with the document. Its fields name the location.
func (p *planning) refused(kind fault.Kind) error {
	list := p.wrong[:min(len(p.wrong), maxComplaints)]
	fields := map[string]string{}
	for _, c := range list {
		at := c.Kind
		if c.Name != "" {
			at += "[" + c.Name + "]"
		}
		if c.Field != "" {
			at += "." + c.Field
		}
		if c.Line > 0 {
			at = fmt.Sprintf("line %d: %s", c.Line, at)
		}
		fields[at] = c.Message
	}
	return &fault.Error{Kind: kind, Message: "The document cannot be applied.", Fields: fields, Details: map[string]any{"complaints": list}}
}

// match finds the stored row for each row of a kind, and gives new rows their ids and names.
func (p *planning) match(ctx context.Context, s *section, k *writtenKind) error {
	same, err := p.same(s, p.written, k)
	if err != nil {
		return err
	}
	p.mentions += len(k.rows)
	taken := map[uuid.UUID]bool{}
	for _, e := range same {
		if e != nil {
			taken[e.id] = true
		}
	}
	byKey := map[string][]*entry{}
	if len(taken) < len(k.rows) {
		for _, e := range s.entries {
			if !e.passing && !taken[e.id] {
				key := s.keyIn(p.catalogue, e.row)
				byKey[key] = append(byKey[key], e)
			}
		}
	}
	var list []*entry
	for i, at := range k.rows {
		row := &plannedRow{s: s, at: at, index: i, entry: same[i], same: same[i] != nil}
		if !row.same {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if row.fields, row.lines, err = p.reader.fields(p.written, at); err != nil {
				return err
			}
			if err := p.find(row, byKey); err != nil {
				return err
			}
		} else {
			row.id = row.entry.id
		}
		p.rows = append(p.rows, row)
		e := row.entry
		if e == nil {
			e = &entry{id: row.id, label: labelOf(s.rowFrom(row.body, row.id))}
		}
		list = append(list, e)
		taken[row.id] = true
	}
	for _, e := range s.entries {
		if !taken[e.id] {
			list = append(list, e)
		}
	}
	s.rename(list)
	for _, row := range p.rows[len(p.rows)-len(k.rows):] {
		if row.name = s.names[row.id]; s.single {
			row.name = s.Title
		}
	}
	return nil
}

// find finds the stored row that has the same natural key. Parents must have been matched already.
func (p *planning) find(row *plannedRow, byKey map[string][]*entry) error {
	s := row.s
	row.body = map[string]jsontext.Value{}
	for _, f := range s.fields {
		raw, there := row.fields[f.Name]
		if !there {
			continue
		}
		if f.table == "" {
			row.body[f.Name] = raw
			continue
		}
		if !f.own && !slices.Contains(s.Natural, f.Name) {
			continue // the row it refers to may not be matched yet
		}
		id, ok := p.resolve(row, f, raw)
		if !ok {
			continue
		}
		if f.own {
			row.id = uuid.Must(uuid.Parse(strings.Trim(string(id), `"`)))
			continue
		}
		row.body[f.Name] = id
	}
	if s.extends != "" {
		if row.id == uuid.Nil && row.fields[s.fields[0].Name] == nil {
			p.about(row, s.fields[0].Name, "is required")
		}
		row.entry = &entry{id: row.id, row: s.rowFrom(nil, row.id)}
		if list := byKey[p.byTable[s.extends].names[row.id]]; len(list) > 0 {
			row.entry = list[0]
		}
		return nil
	}
	guess := s.rowFrom(row.body, uuid.Nil)
	s.canonicalIn(p.catalogue, guess)
	key := s.keyIn(p.catalogue, guess)
	if list := byKey[key]; len(list) > 0 {
		row.entry, byKey[key] = list[0], list[1:]
		row.id = row.entry.id
		return nil
	}
	var err error
	row.id, err = uuid.NewV7()
	p.fresh[row.id] = row
	return err
}

// resolve returns the ids of the rows that a field names.
func (p *planning) resolve(row *plannedRow, f documentField, raw jsontext.Value) (jsontext.Value, bool) {
	to := p.byTable[f.table]
	one := func(raw jsontext.Value) (jsontext.Value, bool) {
		var name string
		if json.Unmarshal(raw, &name) != nil {
			p.about(row, f.Name, "must be the name of a "+to.Title)
			return nil, false
		}
		id, there := to.ids[name]
		if !there {
			p.about(row, f.Name, fmt.Sprintf("There is no %s with the name %q.", to.Title, name))
			return nil, false
		}
		return jsontext.Value(`"` + id.String() + `"`), true
	}
	switch {
	case to == nil:
		p.about(row, f.Name, "cannot be set in a document")
		return nil, false
	case raw.Kind() == 'n':
		return raw, true
	case f.Type != reflect.TypeFor[[]uuid.UUID]():
		return one(raw)
	}
	var items []jsontext.Value
	if json.Unmarshal(raw, &items) != nil {
		p.about(row, f.Name, "must be a list of names")
		return nil, false
	}
	b := jsontext.Value{'['}
	for i, item := range items {
		id, ok := one(item)
		if !ok {
			return nil, false
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, id...)
	}
	return append(b, ']'), true
}

// compare applies a row to what is stored, and leaves in its body only what differs.
func (p *planning) compare(row *plannedRow) error {
	s := row.s
	known := map[string]bool{}
	before := len(p.wrong)
	for i, f := range s.fields {
		known[f.Name] = true
		raw, there := row.fields[f.Name]
		if !there || f.own {
			continue
		}
		if f.table != "" {
			id, ok := p.resolve(row, f, raw)
			if ok {
				row.body[f.Name] = id
			}
			continue
		}
		if !f.Secret && !isPacked(f.Field) {
			continue
		}
		if f.Secret && !isSealed(f.Field) && row.entry != nil {
			// such as a password, which cannot be compared with the stored one: documents set it only for new rows
			delete(row.body, f.Name)
			continue
		}
		if row.entry != nil {
			if err := p.encoded(s, row.entry); err != nil {
				return err
			}
			if string(row.entry.fields[i]) == string(raw) {
				delete(row.body, f.Name)
				continue
			}
		}
		if !p.admin {
			return fault.New(fault.Forbidden, "Only an administrator may preview a change that sets a secret.")
		}
		opened, err := p.open(row, f, raw)
		if err != nil {
			p.about(row, f.Name, err.Error())
			continue
		}
		row.body[f.Name] = opened
	}
	for name := range row.fields {
		switch {
		case known[name]:
		case name == "priority" && s.ordered():
			p.about(row, name, "does not belong into a document: the order is that of the list")
		default:
			p.about(row, name, "is not a field of a "+s.Title+" in a document")
		}
	}
	if len(p.wrong) > before {
		return nil
	}
	body, err := json.Marshal(row.body, json.Deterministic(true))
	if err != nil {
		return err
	}
	var was record
	if row.entry != nil {
		was = row.entry.row
	}
	now, err := s.changed(was, body)
	if f, ok := errors.AsType[*fault.Error](err); ok {
		for field, text := range f.Fields {
			p.about(row, field, text)
		}
		if len(f.Fields) == 0 {
			p.about(row, "", f.Message)
		}
		return nil
	}
	if err != nil || row.entry == nil {
		return err
	}
	return p.differ(row, now)
}

// differ removes from the body what is stored already.
func (p *planning) differ(row *plannedRow, now record) error {
	s := row.s
	if err := p.encoded(s, row.entry); err != nil {
		return err
	}
	fields, err := s.documentValues(p.catalogue, now, row.id)
	if err != nil {
		return err
	}
	differs := false
	for i, f := range s.fields {
		if _, there := row.body[f.Name]; !there {
			continue
		}
		same := string(fields[i]) == string(row.entry.fields[i])
		differs = differs || !same
		if same && !f.Given {
			delete(row.body, f.Name)
		}
	}
	if !differs {
		clear(row.body)
		return nil
	}
	for i, f := range s.fields {
		if _, there := row.body[f.Name]; f.Given && !there {
			row.body[f.Name] = jsontext.Value(row.entry.fields[i])
		}
	}
	return nil
}

// open decrypts the sealed secrets of a field.
func (p *planning) open(row *plannedRow, f documentField, raw jsontext.Value) (jsontext.Value, error) {
	if !strings.Contains(string(raw), secret.SealedPrefix) {
		return raw, nil
	}
	place := row.s.keyIn(p.catalogue, row.s.rowFrom(row.body, row.id))
	other := errors.New("was sealed for another row, or was changed. Enter the secret itself")
	if isPacked(f.Field) {
		place += row.s.around(func(i int) []byte { return row.fields[row.s.fields[i].Name] })
		other = errors.New("was sealed for other settings, or for another row. Enter the secret itself")
	}
	var wrong error
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, errors.New("must be text")
	}
	v = unsealed(v, func(sealed string) string {
		plain, err := p.Secrets.Read(sealed, row.s.Name, f.Name, place)
		switch {
		case errors.Is(err, secret.ErrOtherKey):
			wrong = errors.New("was sealed with the master key of another gateway. Enter the secret itself")
		case err != nil:
			wrong = other
		}
		return plain
	})
	b, err := json.Marshal(v, json.Deterministic(true))
	if wrong != nil {
		err = wrong
	}
	return b, err
}

// operations builds the change set: creates and updates in the order of the kinds, then deletes in reverse order.
func (p *planning) operations(kinds map[*section]*writtenKind) error {
	var late []func() error
	of := map[*section][]*plannedRow{}
	for _, row := range p.rows {
		of[row.s] = append(of[row.s], row)
	}
	deleted := map[*section][]*entry{}
	for s := range kinds {
		if p.prune {
			deleted[s] = p.unmentioned(s, of[s])
		}
		if s.ordered() {
			of[s] = append(of[s], p.arrange(s, of[s], deleted[s])...)
		}
	}
	for _, s := range p.sections {
		for _, row := range of[s] {
			later, err := p.operation(row)
			if err != nil {
				return err
			}
			if later != nil {
				late = append(late, later)
			}
		}
	}
	for _, f := range late {
		if err := f(); err != nil {
			return err
		}
	}
	for _, s := range slices.Backward(p.sections) {
		for _, e := range deleted[s] {
			if err := p.delete(s, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// unmentioned lists the rows of a kind that the document does not contain.
func (p *planning) unmentioned(s *section, rows []*plannedRow) []*entry {
	if s.single {
		return nil
	}
	there := make(map[uuid.UUID]bool, len(rows))
	for _, row := range rows {
		there[row.id] = true
	}
	return slices.DeleteFunc(slices.Clone(s.entries), func(e *entry) bool { return there[e.id] || e.passing || e.builtin })
}

// operation adds the operation on a row. References to rows that are created later are returned as a separate operation.
func (p *planning) operation(row *plannedRow) (later func() error, err error) {
	s := row.s
	if row.same && row.rank == nil || row.entry != nil && len(row.body) == 0 && row.rank == nil {
		return nil, nil
	}
	change := &DocumentChange{Kind: s.Name, Name: row.name, Verb: "update", Line: row.at.line, Fields: map[string][2]wire.Raw{}, Secrets: []string{}, With: []User{}}
	op := Operation{Kind: s.Name, Verb: "update", ID: &row.id}
	switch {
	case s.single:
		op.ID = nil
	case row.entry == nil:
		op.Verb, change.Verb = "create", "create"
	}
	postponed := map[string]jsontext.Value{}
	for i, f := range s.fields {
		raw, there := row.body[f.Name]
		if !there {
			continue
		}
		if f.Secret || isPacked(f.Field) {
			change.Secrets = append(change.Secrets, f.Name)
		} else {
			pair := [2]wire.Raw{nil, wire.Raw(row.fields[f.Name])}
			if row.entry != nil {
				pair[0] = row.entry.fields[i]
			}
			change.Fields[f.Name] = pair
		}
		if f.table != "" && p.createdLater(row, f, raw) {
			postponed[f.Name] = raw
			delete(row.body, f.Name)
		}
	}
	if row.rank != nil {
		if row.body == nil {
			row.body = map[string]jsontext.Value{}
		}
		row.body["priority"] = jsontext.Value(fmt.Sprint(*row.rank))
		if row.entry != nil && row.moved[0] != row.moved[1] {
			before, _ := wire.Encode(row.moved[0])
			after, _ := wire.Encode(row.moved[1])
			change.Fields["position"] = [2]wire.Raw{before, after}
		}
	}
	if len(postponed) > 0 {
		later = func() error {
			return p.add(Operation{Kind: s.Name, Verb: "update", ID: &row.id}, postponed, change, row)
		}
	}
	if row.entry != nil && len(row.body) == 0 {
		return later, nil
	}
	return later, p.add(op, row.body, change, row)
}

func (p *planning) add(op Operation, body map[string]jsontext.Value, change *DocumentChange, row *plannedRow) (err error) {
	if body != nil {
		if op.Body, err = json.Marshal(body, json.Deterministic(true)); err != nil {
			return err
		}
	}
	p.set.Operations, p.changes, p.rowOf = append(p.set.Operations, op), append(p.changes, change), append(p.rowOf, row)
	return nil
}

// createdLater reports whether an optional reference points to a row that is created later.
func (p *planning) createdLater(row *plannedRow, f documentField, ids jsontext.Value) bool {
	if f.Type == reflect.TypeFor[uuid.UUID]() {
		return false
	}
	if to := p.byTable[f.table]; to.place < row.s.place {
		return false
	}
	var list []uuid.UUID
	if ids.Kind() != '[' {
		ids = slices.Concat(jsontext.Value{'['}, ids, jsontext.Value{']'})
	}
	if json.Unmarshal(ids, &list) != nil {
		return false
	}
	return slices.ContainsFunc(list, func(id uuid.UUID) bool { return p.fresh[id] != nil })
}

// delete adds the deletion of a row that the document does not contain. An extension is reset to its defaults instead.
func (p *planning) delete(s *section, e *entry) error {
	if err := p.encoded(s, e); err != nil {
		return err
	}
	change := &DocumentChange{Kind: s.Name, Name: s.names[e.id], Verb: "delete", Fields: map[string][2]wire.Raw{}, Secrets: []string{}, With: []User{}}
	op := Operation{Kind: s.Name, Verb: "delete", ID: &e.id}
	var usual []wire.Raw
	var body map[string]jsontext.Value
	if s.extends != "" {
		var err error
		if usual, err = s.documentValues(p.catalogue, s.rowFrom(nil, e.id), e.id); err != nil {
			return err
		}
		op.Verb, change.Verb, body = "update", "update", map[string]jsontext.Value{}
	}
	for i, f := range s.fields {
		switch {
		case e.fields[i] == nil || f.own || f.Secret || isPacked(f.Field):
		case usual == nil:
			change.Fields[f.Name] = [2]wire.Raw{e.fields[i], nil}
		case string(usual[i]) != string(e.fields[i]):
			change.Fields[f.Name] = [2]wire.Raw{e.fields[i], usual[i]}
			body[f.Name] = jsontext.Value(usual[i])
		}
	}
	if body != nil && len(body) == 0 {
		return nil
	}
	return p.add(op, body, change, nil)
}

// kindsOf lists the kinds in a document.
func (w *written) kindsOf() []string {
	names := map[string]bool{}
	for _, k := range w.kinds {
		names[k.name] = true
	}
	delete(names, formKey)
	return slices.Sorted(maps.Keys(names))
}
