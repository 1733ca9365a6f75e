package secret

import (
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/check"
)

// Masked is a secret within a field that is an object, such as the settings of one of several kinds. Answers contain the mask if
// it is set; sent back, the mask keeps the secret.
type Masked Text

// NewMasked returns a secret that is not sealed yet.
func NewMasked(plain string) Masked { return Masked(New(plain)) }

func (m Masked) Set() bool { return Text(m).Set() }

// Fresh returns the plain text if it was set in this request.
func (m Masked) Fresh() (string, bool) { return Text(m).Fresh() }

func (m Masked) Open(b *Box, table, column, row string) (string, error) {
	return Text(m).Open(b, table, column, row)
}

// Again rejects stored secrets that would be sent to another place than they were entered for: whoever changes the place must
// enter them again. secrets are those of the new settings.
func Again(c *check.List, field string, secrets ...Masked) {
	stored := slices.ContainsFunc(secrets, func(m Masked) bool { _, fresh := m.Fresh(); return m.Set() && !fresh })
	c.That(!stored, field, "must be entered again when the server changes")
}

// UnmarshalJSON sets a new secret; the mask keeps the stored one.
func (m *Masked) UnmarshalJSON(b []byte) error { return (*Text)(m).UnmarshalJSON(b) }

// MarshalJSON reveals only whether there is a secret.
func (m Masked) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

func (m Masked) String() string {
	if !m.Set() {
		return ""
	}
	return Mask
}

func (m Masked) GoString() string { return m.String() }

func (m Masked) LogValue() slog.Value { return slog.StringValue(m.String()) }

func (Masked) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

// Holds reports whether a type has secrets inside.
func Holds(t reflect.Type) bool { return holds(t, map[reflect.Type]bool{}) }

func holds(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == reflect.TypeFor[Masked]() {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		return holds(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if holds(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// Unreadable lists the secrets within a field that cannot be decrypted with this master key, such as settings.password.
func (b *Box) Unreadable(field string, v any) []string {
	return b.unreadable(field, reflect.ValueOf(v))
}

func (b *Box) unreadable(at string, v reflect.Value) (places []string) {
	if m, ok := v.Interface().(Masked); ok {
		if b.Readable(Text(m)) {
			return nil
		}
		return []string{at}
	}
	switch v.Kind() {
	case reflect.Map:
		for _, key := range v.MapKeys() {
			places = append(places, b.unreadable(at+"."+key.String(), v.MapIndex(key))...)
		}
		slices.Sort(places)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && Holds(f.Type) {
				inside := at
				if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
					inside += "." + name
				}
				places = append(places, b.unreadable(inside, v.Field(i))...)
			}
		}
	}
	return places
}

// Pack encodes a value with secrets inside as JSON for one column of one row. The secrets are sealed for that place.
func (b *Box) Pack(v any, table, column, row string) ([]byte, error) {
	seal := json.MarshalFunc(func(m Masked) ([]byte, error) {
		sealed, err := Text(m).Sealed(b, table, column, row)
		if err != nil {
			return nil, err
		}
		return json.Marshal(sealed)
	})
	return json.Marshal(v, json.WithMarshalers(seal), json.Deterministic(true))
}

// Unpack decodes what Pack wrote. The secrets stay sealed until they are opened.
func Unpack(doc []byte, into any) error {
	unseal := json.UnmarshalFunc(func(b []byte, m *Masked) error {
		var sealed []byte
		if err := json.Unmarshal(b, &sealed); err != nil {
			return errors.New("a sealed secret has an unknown form")
		}
		*m = Masked{}
		if len(sealed) > 0 {
			*m = Masked(FromSealed(sealed))
		}
		return nil
	})
	return json.Unmarshal(doc, into, json.WithUnmarshalers(unseal))
}
