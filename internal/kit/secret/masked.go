package secret

import (
	"errors"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
)

// Masked is a secret inside of a field that is an object, such as the settings of one of several kinds. An answer has the mask in its
// place when there is one; sent back, the mask keeps it.
type Masked struct{ Text }

// NewMasked makes a secret that is not sealed yet.
func NewMasked(plain string) Masked { return Masked{New(plain)} }

// MarshalJSON tells whether there is one, and no more.
func (m Masked) MarshalJSON() ([]byte, error) {
	if !m.Set() {
		return []byte(`""`), nil
	}
	return m.Text.MarshalJSON()
}

// Schema documents what an answer has.
func (Masked) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

// Holds tells whether a type has secrets inside.
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

// Pack writes a value with secrets inside as JSON for one column of one row. The secrets in it are sealed for that place.
func (b *Box) Pack(v any, table, column, row string) ([]byte, error) {
	seal := json.MarshalFunc(func(m Masked) ([]byte, error) {
		sealed, err := m.Sealed(b, table, column, row)
		if err != nil {
			return nil, err
		}
		return json.Marshal(sealed)
	})
	return json.Marshal(v, json.WithMarshalers(seal), json.Deterministic(true))
}

// Unpack reads what Pack wrote. The secrets stay sealed until one of them is opened.
func Unpack(doc []byte, into any) error {
	unseal := json.UnmarshalFunc(func(b []byte, m *Masked) error {
		var sealed []byte
		if err := json.Unmarshal(b, &sealed); err != nil {
			return errors.New("a sealed secret has an unknown form")
		}
		*m = Masked{}
		if len(sealed) > 0 {
			m.Text = FromSealed(sealed)
		}
		return nil
	})
	return json.Unmarshal(doc, into, json.WithUnmarshalers(unseal))
}
