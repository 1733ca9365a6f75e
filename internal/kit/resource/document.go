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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// documentForm is the format version of configuration documents.
const documentForm = 1

// formKey is the key that holds a document's format version.
const formKey = "gateway"

type documentField struct {
	wire.Field
	// table is the table that the field refers to by id. In a document, the reference is a name.
	table string
	// own marks the field that names the row to which an extension belongs.
	own bool
}

// catalogue holds all rows, with the names that they have in documents.
type catalogue struct {
	*Registry
	// sealed writes secrets, encrypted; otherwise they are omitted.
	sealed   bool
	sections []*section // sorted so that referenced kinds come before those that refer to them
	byName   map[string]*section
	byTable  map[string]*section
}

type section struct {
	*kind
	place   int // index in catalogue.sections
	fields  []documentField
	entries []*entry
	names   map[uuid.UUID]string
	ids     map[string]uuid.UUID
}

type entry struct {
	id       uuid.UUID
	row      record
	label    string
	passing  bool
	builtin  bool
	priority int64
	fields   []wire.Raw
}

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
	for name, k := range r.kinds {
		s := &section{kind: k}
		if keys[k.Table] == nil {
			keys[k.Table] = map[string]string{}
		}
		maps.Copy(keys[k.Table], k.Refers)
		s.fields = k.documentFields(keys[k.Table])
		c.sections, c.byName[name], c.byTable[k.Table] = append(c.sections, s), s, s
	}
	for table := range above {
		above[table] = slices.DeleteFunc(above[table], func(x string) bool { return x == table })
	}
	depth := depthsOf(above)
	slices.SortFunc(c.sections, func(a, b *section) int {
		return cmp.Or(cmp.Compare(depth[a.Table], depth[b.Table]), cmp.Compare(a.Name, b.Name))
	})
	for i, s := range c.sections {
		s.place = i
		if s.entries, err = s.readEntries(ctx, q); err != nil {
			return nil, err
		}
		s.rename(s.entries)
	}
	return c, nil
}

// foreignKeys maps tables and columns to the tables that they refer to.
func foreignKeys(ctx context.Context, q db.Querier) (map[string]map[string]string, error) {
	rows, err := q.Query(ctx, `SELECT c.conrelid::regclass::text, a.attname::text, c.confrelid::regclass::text
		FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
		WHERE c.contype = 'f' AND a.atttypid = 'uuid'::regtype AND cardinality(c.conkey) = 1`)
	if err != nil {
		return nil, err
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
	return found, err
}

// rename names rows by their labels. Later rows with the same label get a number.
func (s *section) rename(list []*entry) {
	s.names, s.ids = make(map[uuid.UUID]string, len(list)), make(map[string]uuid.UUID, len(list))
	last := map[string]int{} // last number given, by label
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

// encoded fills in the fields of a stored row in document form.
func (c *catalogue) encoded(s *section, e *entry) (err error) {
	if e.fields == nil {
		e.fields, err = s.documentValues(c, e.row, e.id)
	}
	return err
}

// included reports whether documents contain a row.
func (c *catalogue) included(s *section, e *entry) (bool, error) {
	if e.passing {
		return false, nil
	}
	if err := c.encoded(s, e); err != nil || s.extends == "" {
		return true, err
	}
	// An extension that has only default values is omitted.
	usual, err := s.documentValues(c, s.rowFrom(nil, e.id), e.id)
	return !slices.EqualFunc(usual, e.fields, func(a, b wire.Raw) bool { return string(a) == string(b) }), err
}

// isBuiltin reports whether a field marks rows that come with the gateway and cannot be deleted.
func isBuiltin(f wire.Field) bool { return f.Name == "builtin" && f.ReadOnly }

func (k *kind) documentFields(refers map[string]string) []documentField {
	var list []documentField
	if k.extends != "" {
		list = append(list, documentField{Field: wire.Field{Name: k.key}, table: k.extends, own: true})
	}
	ordered := k.ordered()
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

func (k *kind) readEntries(ctx context.Context, q db.Querier) ([]*entry, error) {
	rows, err := k.all(ctx, q)
	list := make([]*entry, len(rows))
	for i, v := range rows {
		e := &entry{id: v.meta().ID, row: v, label: labelOf(v), passing: k.Passing != nil && k.Passing(v)}
		if p := k.priority(v); p.IsValid() {
			e.priority = p.Int()
		}
		for _, f := range k.codec.fields {
			if isBuiltin(f) {
				e.builtin = field(v, f).Bool()
			}
		}
		list[i] = e
	}
	return list, err
}

// keyIn returns what distinguishes a row from the others of its kind.
func (s *section) keyIn(c *catalogue, v record) string {
	switch {
	case s.single:
		return s.Name
	case s.extends != "":
		return c.byTable[s.extends].names[v.meta().ID]
	case len(s.Natural) == 0:
		return labelOf(v)
	}
	var parts []string
	for _, f := range s.fields {
		if !slices.Contains(s.Natural, f.Name) {
			continue
		}
		b, err := c.plain(f, field(v, f.Field))
		if err != nil {
			b = nil // an invalid value is reported later
		}
		parts = append(parts, string(b))
	}
	return strings.Join(parts, " ")
}

// plain returns the document form of a field that is not secret.
func (c *catalogue) plain(f documentField, v reflect.Value) (wire.Raw, error) {
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

// documentValues returns a row in document form: a value for each field, or nil for one that is omitted.
func (s *section) documentValues(c *catalogue, stored record, id uuid.UUID) ([]wire.Raw, error) {
	v := reflect.ValueOf(s.view(stored)).Elem()
	var made []string
	if s.Made != nil {
		made = s.Made(stored)
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
				place = s.keyIn(c, stored)
			}
			list[i], err = s.secretIn(c, f, v.FieldByIndex(f.Index), id, place)
		case isPacked(f.Field):
			packed = append(packed, i)
			list[i], err = secret.Show(v.FieldByIndex(f.Index).Interface(), func(secret.Masked) (string, error) { return "", nil })
		case f.Secret:
		default:
			list[i], err = c.plain(f, v.FieldByIndex(f.Index))
		}
		if err != nil {
			return nil, fmt.Errorf("writing %s of %s: %w", f.Name, s.Name, err)
		}
	}
	if len(packed) == 0 {
		return list, nil
	}
	place = s.keyIn(c, stored) + s.around(func(i int) []byte { return list[i] })
	for _, i := range packed {
		var err error
		if list[i], err = s.secretIn(c, s.fields[i], v.FieldByIndex(s.fields[i].Index), id, place); err != nil {
			return nil, fmt.Errorf("writing %s of %s: %w", s.fields[i].Name, s.Name, err)
		}
	}
	return list, nil
}

// around returns a digest of what surrounds the secrets inside a row's objects: these objects without their secrets, and the
// texts of the row. It is part of the context that such secrets are sealed for, because it determines where they are sent.
func (s *section) around(value func(i int) []byte) string {
	sum := sha256.New()
	for i, f := range s.fields {
		raw := jsontext.Value(value(i))
		if f.table != "" || f.own || len(raw) == 0 || raw.Kind() != '"' && !isPacked(f.Field) || isSealed(f.Field) {
			continue
		}
		var v any
		if json.Unmarshal(raw, &v) != nil {
			continue // reported elsewhere
		}
		b, err := json.Marshal(unsealed(v, func(string) string { return "" }), json.Deterministic(true))
		if err == nil {
			fmt.Fprintf(sum, "%s %s\n", f.Name, b)
		}
	}
	return fmt.Sprintf(" %x", sum.Sum(nil))
}

// unsealed returns a value with its sealed secrets replaced.
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

// secretIn returns the document form of a field with secrets. Secrets that can no longer be decrypted are omitted.
func (k *kind) secretIn(c *catalogue, f documentField, v reflect.Value, id uuid.UUID, place string) (wire.Raw, error) {
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

// rowFrom returns a row with those fields of a body that can be decoded.
func (k *kind) rowFrom(body map[string]jsontext.Value, id uuid.UUID) record {
	v := k.fresh()
	v.meta().ID = id
	for _, f := range k.codec.fields {
		if raw, there := body[f.Name]; there && !f.ReadOnly {
			_ = json.Unmarshal(raw, field(v, f).Addr().Interface())
		}
	}
	if v, ok := v.(wire.Validator); ok {
		_ = v.Validate() // some Validate methods bring fields into canonical form
	}
	return v
}

// canonicalIn brings the natural key of a row into the form in which it is stored.
func (s *section) canonicalIn(c *catalogue, v record) {
	if s.Canonical == nil {
		return
	}
	for _, f := range s.fields {
		if f.table != "" && slices.Contains(s.Natural, f.Name) {
			id, _ := field(v, f.Field).Interface().(uuid.UUID)
			s.Canonical(v, c.byTable[f.table].names[id])
			return
		}
	}
}

// changed returns a copy of a row with the fields of a body; was is nil for a new row.
func (k *kind) changed(was record, body []byte) (record, error) {
	now := k.fresh()
	if was != nil {
		now = k.copied(was)
	}
	_, err := wire.Decode(body, now)
	return now, err
}
