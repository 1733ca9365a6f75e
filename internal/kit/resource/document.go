package resource

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// documentForm is the version of the form of configuration documents.
const documentForm = 1

// formKey is the key of a document that has the version of its form.
const formKey = "gateway"

// documentField is a field of a kind as documents have it.
type documentField struct {
	wire.Field
	// table is what it refers to by ids, which are names in a document.
	table string
	// own is for the row that an extension belongs to.
	own bool
}

// documented is a kind as documents have it. Rows are pointers to the kind's type.
type documented interface {
	handler
	about() documentedKind
	documentFields(refers map[string]string) []documentField
	all(ctx context.Context, q db.Querier) ([]*entry, error)
	// shown is a row as documents have it: a value for each field, or nil for one that is left out.
	shownIn(c *catalogue, of *section, row any, id uuid.UUID) ([]wire.Raw, error)
	// keyIn tells a row from others of the kind.
	keyIn(c *catalogue, of *section, row any) string
	// imagined is a row with the fields of a body, as far as they can be read.
	imagined(body map[string]jsontext.Value, id uuid.UUID) any
	// canonicalIn writes what tells a row from others in the way in which it is stored.
	canonicalIn(c *catalogue, of *section, row any)
	// changed is a copy of a row with the fields of a body; was is nil for a new one.
	changed(was any, body []byte) (any, error)
	labelOf(row any) string
	schemas(types huma.Registry) map[string]*huma.Schema
}

// documentedKind is what a kind says about itself.
type documentedKind struct {
	title, extends   string
	ordered, builtin bool
	refers           map[string]string
	natural          []string
}

// catalogue is all rows as they are, with the names that documents have for them.
type catalogue struct {
	*Registry
	// sealed says that secrets are told, sealed.
	sealed   bool
	sections []*section // what refers to others comes after them
	byName   map[string]*section
	byTable  map[string]*section
}

// section is the rows of one kind.
type section struct {
	documented
	documentedKind
	name    string
	place   int // among the sections
	fields  []documentField
	entries []*entry
	names   map[uuid.UUID]string
	ids     map[string]uuid.UUID
}

// entry is a stored row.
type entry struct {
	id       uuid.UUID
	row      any // a pointer to the kind's type
	label    string
	passing  bool
	builtin  bool
	priority int64
	fields   []wire.Raw
}

// catalogue reads all rows.
func (r *Registry) catalogue(ctx context.Context, q db.Querier, sealed bool) (*catalogue, error) {
	c := &catalogue{Registry: r, sealed: sealed, byName: map[string]*section{}, byTable: map[string]*section{}}
	above, err := r.refers(ctx, q)
	if err != nil {
		return nil, err
	}
	keys, err := foreignKeys(ctx, q)
	if err != nil {
		return nil, err
	}
	for name, h := range r.kinds {
		s := &section{documented: h.(documented), name: name}
		s.documentedKind = s.about()
		table := h.table().Name
		if keys[table] == nil {
			keys[table] = map[string]string{}
		}
		maps.Copy(keys[table], s.refers)
		s.fields = s.documentFields(keys[table])
		c.sections, c.byName[name], c.byTable[table] = append(c.sections, s), s, s
	}
	for table := range above {
		above[table] = slices.DeleteFunc(above[table], func(x string) bool { return x == table })
	}
	depth := depthsOf(above)
	slices.SortFunc(c.sections, func(a, b *section) int {
		return cmp.Or(cmp.Compare(depth[a.table().Name], depth[b.table().Name]), cmp.Compare(a.name, b.name))
	})
	for i, s := range c.sections {
		s.place = i
		if s.entries, err = s.all(ctx, q); err != nil {
			return nil, err
		}
		s.rename(s.entries)
	}
	return c, nil
}

// foreignKeys are the tables that columns refer to, by table and column.
func foreignKeys(ctx context.Context, q db.Querier) (map[string]map[string]string, error) {
	rows, err := q.Query(ctx, `SELECT c.conrelid::regclass::text, a.attname::text, c.confrelid::regclass::text
		FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
		WHERE c.contype = 'f' AND a.atttypid = 'uuid'::regtype AND cardinality(c.conkey) = 1`)
	if err != nil {
		return nil, db.Fault(err)
	}
	found := map[string]map[string]string{}
	var table, column, to string
	_, err = pgx.ForEachRow(rows, []any{&table, &column, &to}, func() error {
		if found[table] == nil {
			found[table] = map[string]string{}
		}
		found[table][column] = to
		return nil
	})
	return found, db.Fault(err)
}

// rename gives rows their names: their labels, and a number for the second with the same one and those after it.
func (s *section) rename(list []*entry) {
	s.names, s.ids = make(map[uuid.UUID]string, len(list)), make(map[string]uuid.UUID, len(list))
	last := map[string]int{} // numbers that were given, by label
	for _, e := range list {
		if e.passing {
			continue
		}
		name := e.label
		for s.ids[name] != uuid.Nil {
			last[e.label]++
			name = fmt.Sprintf("%s #%d", e.label, last[e.label]+1)
		}
		s.names[e.id], s.ids[name] = name, e.id
	}
}

// encoded is a stored row as documents have it.
func (c *catalogue) encoded(s *section, e *entry) (err error) {
	if e.fields == nil {
		e.fields, err = s.shownIn(c, s, e.row, e.id)
	}
	return err
}

// said tells whether documents have a row.
func (c *catalogue) said(s *section, e *entry) (bool, error) {
	if e.passing {
		return false, nil
	}
	if err := c.encoded(s, e); err != nil || s.extends == "" {
		return true, err
	}
	// What an extension says by default is not said.
	usual, err := s.shownIn(c, s, s.imagined(nil, e.id), e.id)
	return !slices.EqualFunc(usual, e.fields, func(a, b wire.Raw) bool { return string(a) == string(b) }), err
}

func (k *Kind[T]) about() documentedKind {
	x := documentedKind{title: k.Title, extends: k.extends, refers: k.Refers, natural: k.Natural, ordered: k.priority(new(T)).IsValid()}
	for _, f := range k.codec.fields {
		x.builtin = x.builtin || isBuiltin(f)
	}
	return x
}

// isBuiltin tells whether a field says that the row comes with the gateway, and is not to be deleted.
func isBuiltin(f wire.Field) bool { return f.Name == "builtin" && f.ReadOnly }

func (k *Kind[T]) documentFields(refers map[string]string) []documentField {
	var list []documentField
	if k.extends != "" {
		list = append(list, documentField{Field: wire.Field{Name: k.key()}, table: k.extends, own: true})
	}
	ordered := k.priority(new(T)).IsValid()
	for _, f := range k.codec.fields {
		if isMeta(f) || f.ReadOnly || ordered && f.Name == "priority" || slices.Contains(k.LocalColumns, f.Name) {
			continue
		}
		x := documentField{Field: f}
		switch f.Type {
		case reflect.TypeFor[uuid.UUID](), reflect.TypeFor[*uuid.UUID](), reflect.TypeFor[[]uuid.UUID]():
			x.table = refers[f.Name]
		}
		list = append(list, x)
	}
	return list
}

func (k *Kind[T]) all(ctx context.Context, q db.Querier) ([]*entry, error) {
	rows, err := k.All(ctx, q)
	list := make([]*entry, len(rows))
	for i := range rows {
		v := &rows[i]
		e := &entry{id: metaOf(v).ID, row: v, label: labelOf(v), passing: k.Passing != nil && k.Passing(v)}
		if p := k.priority(v); p.IsValid() {
			e.priority = p.Int()
		}
		for _, f := range k.codec.fields {
			if isBuiltin(f) {
				e.builtin = k.field(v, f).Bool()
			}
		}
		list[i] = e
	}
	return list, err
}

func (k *Kind[T]) labelOf(row any) string { return labelOf(row.(*T)) }

func (k *Kind[T]) keyIn(c *catalogue, s *section, row any) string {
	v := row.(*T)
	switch {
	case k.single:
		return k.Name
	case k.extends != "":
		return c.byTable[k.extends].names[metaOf(v).ID]
	case len(k.Natural) == 0:
		return labelOf(v)
	}
	var parts []string
	for _, f := range s.fields {
		if !slices.Contains(k.Natural, f.Name) {
			continue
		}
		b, err := k.plain(c, f, reflect.ValueOf(v).Elem().FieldByIndex(f.Index))
		if err != nil {
			b = nil // what is no value yet is complained about later
		}
		parts = append(parts, string(b))
	}
	return strings.Join(parts, " ")
}

// plain is a field that is no secret as documents have it.
func (k *Kind[T]) plain(c *catalogue, f documentField, v reflect.Value) (wire.Raw, error) {
	if f.table == "" {
		return wire.Encode(v.Interface())
	}
	names := map[uuid.UUID]string{}
	if s := c.byTable[f.table]; s != nil {
		names = s.names
	}
	switch ids := v.Interface().(type) {
	case uuid.UUID:
		return named(names, &ids)
	case *uuid.UUID:
		return named(names, ids)
	default:
		list := []string{}
		for _, id := range ids.([]uuid.UUID) {
			if name, there := names[id]; there {
				list = append(list, name)
			}
		}
		return wire.Encode(list)
	}
}

func named(names map[uuid.UUID]string, id *uuid.UUID) (wire.Raw, error) {
	if id == nil {
		return wire.Raw("null"), nil
	}
	name, there := names[*id]
	if !there {
		return wire.Raw("null"), nil
	}
	return wire.Encode(name)
}

func (k *Kind[T]) shownIn(c *catalogue, s *section, row any, id uuid.UUID) ([]wire.Raw, error) {
	stored := row.(*T)
	v := reflect.ValueOf(k.view(stored)).Elem()
	var made []string
	if k.Made != nil {
		made = k.Made(stored)
	}
	place := ""
	list := make([]wire.Raw, len(s.fields))
	var packed []int
	for i, f := range s.fields {
		var err error
		switch {
		case slices.Contains(made, f.Name):
		case f.own:
			list[i], err = named(c.byTable[f.table].names, &id)
		case isSealed(f.Field):
			if place == "" {
				place = k.keyIn(c, s, row)
			}
			list[i], err = k.secretIn(c, f, v.FieldByIndex(f.Index), id, place)
		case isPacked(f.Field):
			packed = append(packed, i)
			list[i], err = secret.Show(v.FieldByIndex(f.Index).Interface(), func(secret.Masked) (string, error) { return "", nil })
		case f.Secret:
		default:
			list[i], err = k.plain(c, f, v.FieldByIndex(f.Index))
		}
		if err != nil {
			return nil, fmt.Errorf("writing %s of %s: %w", f.Name, k.Name, err)
		}
	}
	if len(packed) == 0 {
		return list, nil
	}
	place = k.keyIn(c, s, row) + s.around(func(i int) []byte { return list[i] })
	for _, i := range packed {
		var err error
		if list[i], err = k.secretIn(c, s.fields[i], v.FieldByIndex(s.fields[i].Index), id, place); err != nil {
			return nil, fmt.Errorf("writing %s of %s: %w", s.fields[i].Name, k.Name, err)
		}
	}
	return list, nil
}

// around is what surrounds the secrets inside of a row's objects: these objects without them, and the texts of the row. It is part of the place
// that such secrets are sealed for, because it says where they are sent.
func (s *section) around(value func(i int) []byte) string {
	sum := sha256.New()
	for i, f := range s.fields {
		raw := jsontext.Value(value(i))
		if f.table != "" || f.own || len(raw) == 0 || raw.Kind() != '"' && !isPacked(f.Field) || isSealed(f.Field) {
			continue
		}
		var v any
		if json.Unmarshal(raw, &v) != nil {
			continue // it is complained about elsewhere
		}
		b, err := json.Marshal(unsealed(v, func(string) string { return "" }), json.Deterministic(true))
		if err == nil {
			fmt.Fprintf(sum, "%s %s\n", f.Name, b)
		}
	}
	return fmt.Sprintf(" %x", sum.Sum(nil))
}

// unsealed is a value with something else in the places of sealed secrets.
func unsealed(v any, instead func(sealed string) string) any {
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, secret.SealedPrefix) {
			return instead(v)
		}
	case []any:
		for i := range v {
			v[i] = unsealed(v[i], instead)
		}
	case map[string]any:
		for name := range v {
			v[name] = unsealed(v[name], instead)
		}
	}
	return v
}

// secretIn is a field with secrets as documents have it. What cannot be opened any more is left out.
func (k *Kind[T]) secretIn(c *catalogue, f documentField, v reflect.Value, id uuid.UUID, place string) (wire.Raw, error) {
	seal := func(t secret.Text) (string, error) {
		plain, err := t.Open(c.Secrets, k.Table, f.Name, id.String())
		if err != nil {
			return "", err
		}
		return c.Secrets.Write(plain, k.Name, f.Name, place)
	}
	if isSealed(f.Field) {
		text := v.Interface().(secret.Text)
		if !text.Set() || !c.sealed {
			return nil, nil
		}
		sealed, err := seal(text)
		if err != nil {
			return nil, nil
		}
		return wire.Encode(sealed)
	}
	return secret.Show(v.Interface(), func(m secret.Masked) (string, error) {
		if !c.sealed {
			return secret.Mask, nil
		}
		sealed, err := seal(secret.Text(m))
		if err != nil {
			return secret.Mask, nil
		}
		return sealed, nil
	})
}

func (k *Kind[T]) imagined(body map[string]jsontext.Value, id uuid.UUID) any {
	row := k.fresh()
	metaOf(row).ID = id
	for _, f := range k.codec.fields {
		if raw, there := body[f.Name]; there && !f.ReadOnly {
			_ = json.Unmarshal(raw, k.field(row, f).Addr().Interface())
		}
	}
	if v, ok := any(row).(wire.Validator); ok {
		_ = v.Validate() // some bring their fields into the canonical form here
	}
	return row
}

func (k *Kind[T]) canonicalIn(c *catalogue, s *section, row any) {
	if k.Canonical == nil {
		return
	}
	v := row.(*T)
	for _, f := range s.fields {
		if f.table != "" && slices.Contains(k.Natural, f.Name) {
			id, _ := k.field(v, f.Field).Interface().(uuid.UUID)
			k.Canonical(v, c.byTable[f.table].names[id])
			return
		}
	}
}

func (k *Kind[T]) changed(was any, body []byte) (any, error) {
	row := k.fresh()
	if was != nil {
		*row = *was.(*T)
	}
	_, err := wire.Decode(body, row)
	return row, err
}
