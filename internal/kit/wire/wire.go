// Package wire defines the JSON of the API: strict decoding that reports every error with its field, encoding, and the JSON
// Schema of both, from the same Go types.
package wire

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
)

// Raw is JSON that is passed on unchanged.
type Raw []byte

func (r Raw) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

func (r *Raw) UnmarshalJSON(b []byte) error {
	*r = slices.Clone(b)
	return nil
}

// Schema documents that it may be anything.
func (Raw) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// Encoded is the encoded JSON of a T, and is documented as a T. It is passed on unchanged.
type Encoded[T any] []byte

func (e Encoded[T]) MarshalJSON() ([]byte, error) { return Raw(e).MarshalJSON() }

func (Encoded[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

func (e Encoded[T]) encoded() []byte { return e }

// Validator is a value that can check more than the types and tags of its fields say.
type Validator interface{ Validate() error }

// WriteOnly is a field that answers never show: its IsZero is always true, so that omitzero omits it. Set reports whether it has
// a value.
type WriteOnly interface {
	IsZero() bool
	Set() bool
}

// Field is one JSON field of a struct, with the information in its tags.
type Field struct {
	Name      string
	Index     []int
	Type      reflect.Type
	ReadOnly  bool // accepted and ignored
	Required  bool // must not be empty
	Given     bool // must be present in the body, even if null or false
	Secret    bool // never written
	Stored    bool // false for computed fields (db:"-")
	enum      []string
	min, max  *int64
	maxLength int
	maxItems  int
}

var cache sync.Map // reflect.Type → []Field

// Fields lists the JSON fields of a struct type, embedded structs included.
func Fields(t reflect.Type) []Field {
	if f, ok := cache.Load(t); ok {
		return f.([]Field)
	}
	fields := collect(t, nil)
	cache.Store(t, fields)
	return fields
}

func collect(t reflect.Type, at []int) []Field {
	var fields []Field
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(slices.Clone(at), i)
		name, opts, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case sf.Anonymous && name == "":
			fields = append(fields, collect(sf.Type, index)...)
			continue
		case !sf.IsExported() || name == "-":
			continue
		case name == "":
			panic(fmt.Sprintf("%s.%s has no json tag", t, sf.Name))
		}
		f := Field{
			Name: name, Index: index, Type: sf.Type,
			ReadOnly:  sf.Tag.Get("readOnly") == "true",
			Required:  sf.Tag.Get("required") == "true",
			Given:     sf.Tag.Get("given") == "true",
			Secret:    sf.Type.Implements(reflect.TypeFor[WriteOnly]()),
			Stored:    sf.Tag.Get("db") != "-",
			maxLength: 4096,
			maxItems:  1000,
		}
		if f.Secret && !strings.Contains(opts, "omitzero") {
			panic(fmt.Sprintf("%s.%s is a secret without omitzero: it would appear in answers", t, sf.Name))
		}
		if e := sf.Tag.Get("enum"); e != "" {
			f.enum = strings.Split(e, ",")
		}
		f.min, f.max = limit(sf, "minimum"), limit(sf, "maximum")
		if n := limit(sf, "maxLength"); n != nil {
			f.maxLength = int(*n)
		}
		if n := limit(sf, "maxItems"); n != nil {
			f.maxItems = int(*n)
		}
		fields = append(fields, f)
	}
	return fields
}

func limit(sf reflect.StructField, tag string) *int64 {
	text := sf.Tag.Get(tag)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: tag %s: %v", sf.Name, tag, err))
	}
	return &n
}

// Decode decodes a JSON object into a struct. Absent fields keep their values, null clears, read-only fields are ignored. Names
// must match exactly; duplicate or unknown names and input after the object are refused. All errors are reported at once. It
// returns which fields were given.
func Decode(body []byte, into any) (given map[string]bool, err error) {
	var object map[string]jsontext.Value
	if err := json.Unmarshal(body, &object); err != nil || object == nil {
		return nil, malformed(body, err)
	}
	v := reflect.ValueOf(into).Elem()
	fields := Fields(v.Type())
	var complaints check.List
	given = make(map[string]bool, len(object))
	known := 0
	for i := range fields {
		f := &fields[i]
		raw, there := object[f.Name]
		if there {
			known++
			given[f.Name] = true
		}
		if f.ReadOnly {
			continue
		}
		if f.Given && !there {
			complaints.Add(f.Name, "is required")
			continue
		}
		if there {
			if err := f.decode(raw, v.FieldByIndex(f.Index)); err != nil {
				complaints.Add(f.Name, "%s", err)
				continue
			}
		}
		if err := f.complain(v.FieldByIndex(f.Index)); err != nil {
			complaints.Add(f.Name, "%s", err)
		}
	}
	if known < len(object) {
		for name := range object {
			if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
				complaints.Add(name, "is not a known field")
			}
		}
	}
	if validator, ok := into.(Validator); ok {
		if err := complaints.Merge(validator.Validate()); err != nil {
			return nil, err
		}
	}
	return given, complaints.Err()
}

// Given returns which fields a JSON object has; nil for anything that Decode refuses as no object.
func Given(body []byte) map[string]bool {
	var object map[string]jsontext.Value
	if json.Unmarshal(body, &object) != nil {
		return nil
	}
	given := make(map[string]bool, len(object))
	for name := range object {
		given[name] = true
	}
	return given
}

func malformed(body []byte, err error) error {
	switch se, syntactic := errors.AsType[*jsontext.SyntacticError](err); {
	case len(body) == 0:
		return fault.New(fault.Invalid, "The request has no body. Send a JSON object.")
	case syntactic && errors.Is(err, jsontext.ErrDuplicateName):
		return fault.Field(se.JSONPointer.LastToken(), "is given twice")
	case syntactic:
		return fault.Wrap(fault.Invalid, err, "The body is not valid JSON (at byte %d).", se.ByteOffset)
	}
	return fault.Wrap(fault.Invalid, err, "The body must be a JSON object.")
}

func (f *Field) decode(raw jsontext.Value, v reflect.Value) error {
	if raw.Kind() == 'n' {
		v.SetZero()
		return nil
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		// The struct may be a copy that shares what these refer to.
		v.SetZero()
	}
	err := json.Unmarshal(raw, v.Addr().Interface(), json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	se, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return errors.New("is not valid JSON")
	}
	where := ""
	if token := se.JSONPointer.LastToken(); token != "" {
		where = strings.ReplaceAll(strings.TrimPrefix(string(se.JSONPointer), "/"), "/", ".") + ": "
		if n, err := strconv.Atoi(token); err == nil && strings.Count(string(se.JSONPointer), "/") == 1 {
			where = fmt.Sprintf("item %d ", n+1)
		}
	}
	return errors.New(where + sentence(se))
}

func sentence(se *json.SemanticError) string {
	switch {
	case errors.Is(se.Err, json.ErrUnknownName):
		return "is not a known field"
	case errors.Is(se.Err, strconv.ErrRange):
		return "is out of range"
	case se.Err != nil && se.GoType == reflect.TypeFor[uuid.UUID]():
		return "must be an id"
	case se.Err != nil && se.JSONKind == '"' && reflect.PointerTo(se.GoType).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()),
		se.Err != nil && reflect.PointerTo(se.GoType).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return se.Err.Error()
	}
	switch se.GoType.Kind() {
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "must be a whole number"
	case reflect.Slice:
		return "must be a list"
	case reflect.Map:
		return "must be an object"
	case reflect.Struct:
		if !reflect.PointerTo(se.GoType).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return "must be an object"
		}
	}
	return "must be text"
}

// complain returns an error if a field violates its tags.
func (f *Field) complain(v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return f.missing()
		}
		v = v.Elem()
	}
	if f.Secret {
		if !v.Interface().(WriteOnly).Set() {
			return f.missing()
		}
		return nil
	}
	if v.IsZero() && v.Kind() != reflect.Bool && !v.CanInt() {
		if err := f.missing(); err != nil || f.enum == nil {
			return err
		}
	}
	switch {
	case v.Kind() == reflect.String:
		return f.text(v.String())
	case v.CanInt():
		n := v.Int()
		switch {
		case f.min != nil && f.max != nil && (n < *f.min || n > *f.max):
			return fmt.Errorf("must be between %d and %d", *f.min, *f.max)
		case f.min != nil && n < *f.min:
			return fmt.Errorf("must be at least %d", *f.min)
		case f.max != nil && n > *f.max:
			return fmt.Errorf("must be at most %d", *f.max)
		}
	case v.Type() == reflect.TypeFor[Raw]():
		return nil // the size of the body limits its length
	case v.Kind() == reflect.Struct:
		// A parsed text limits its content, but not its length.
		if s, ok := v.Interface().(fmt.Stringer); ok && len(s.String()) > f.maxLength {
			return fmt.Errorf("must have at most %d bytes", f.maxLength)
		}
	case v.Kind() == reflect.Slice:
		if v.Len() > f.maxItems {
			return fmt.Errorf("must have at most %d items", f.maxItems)
		}
		if v.Type().Elem().Kind() == reflect.String {
			for i := range v.Len() {
				if err := f.text(v.Index(i).String()); err != nil {
					return fmt.Errorf("item %d %w", i+1, err)
				}
			}
		}
		for i := range v.Len() {
			// The empty text stands for an absent value, which a list cannot contain.
			if z, ok := v.Index(i).Interface().(interface{ IsZero() bool }); ok && z.IsZero() {
				return fmt.Errorf("item %d must not be empty", i+1)
			}
		}
	}
	return nil
}

func (f *Field) missing() error {
	if f.Required {
		return errors.New("is required")
	}
	return nil
}

func (f *Field) text(s string) error {
	switch {
	case f.enum != nil && !slices.Contains(f.enum, s):
		return fmt.Errorf("must be one of %s", strings.Join(f.enum, ", "))
	case len(s) > f.maxLength:
		return fmt.Errorf("must have at most %d bytes", f.maxLength)
	case !utf8.ValidString(s), strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }):
		return errors.New("must not contain control characters")
	}
	return nil
}

// timeForm is UTC, always with microseconds, so that times sort correctly as text.
const timeForm = "2006-01-02T15:04:05.000000Z"

var form = json.JoinOptions(json.Deterministic(true), json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, t time.Time) error {
	return e.WriteToken(jsontext.String(t.UTC().Format(timeForm)))
})))

// Encode encodes a value as JSON. A nil list becomes an empty one. Encoded values are neither copied nor decoded.
func Encode(v any) ([]byte, error) {
	if done, ok := v.(interface{ encoded() []byte }); ok {
		return done.encoded(), nil
	}
	return json.Marshal(v, form)
}
