package secret

import (
	"errors"
	"log/slog"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Holder is a field of a resource that has secrets in it, beside what everybody may read. They are sealed before it is stored.
type Holder interface {
	// Secrets are those that it has, by the names of their fields.
	Secrets() map[string]*Masked
}

// Masked is a secret inside of such a field. In an answer it is the mask, or empty when there is none.
type Masked struct {
	plain  string
	sealed []byte
}

// NewMasked makes a secret that is not sealed yet.
func NewMasked(plain string) Masked { return Masked{plain: plain} }

// Set tells whether there is a secret.
func (m Masked) Set() bool { return m.plain != "" || len(m.sealed) > 0 }

// Fresh is the plain text when it was set in this request.
func (m Masked) Fresh() (string, bool) { return m.plain, m.plain != "" }

// Seal seals it for its place, unless it is.
func (m *Masked) Seal(b *Box, table, column, row string) error {
	if m.plain == "" {
		return nil
	}
	sealed, err := b.Seal(m.plain, table, column, row)
	if err != nil {
		return err
	}
	*m = Masked{sealed: sealed}
	return nil
}

// Open gives the plain text to the one who needs it.
func (m Masked) Open(b *Box, table, column, row string) (string, error) {
	return Text(m).Open(b, table, column, row)
}

// UnmarshalJSON takes a new secret; the mask keeps the stored one.
func (m *Masked) UnmarshalJSON(b []byte) error {
	return (*Text)(m).UnmarshalJSON(b)
}

// MarshalJSON tells whether there is one.
func (m Masked) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

func (m Masked) String() string {
	if m.Set() {
		return Mask
	}
	return ""
}

// GoString never tells.
func (m Masked) GoString() string { return m.String() }

// LogValue never tells.
func (m Masked) LogValue() slog.Value { return slog.StringValue(m.String()) }

// Schema documents it.
func (Masked) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

var (
	store = json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, m Masked) error {
		if m.plain != "" {
			return errors.New("a secret is not sealed")
		}
		return json.MarshalEncode(e, m.sealed)
	}))
	load = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, m *Masked) error {
		var sealed []byte
		err := json.UnmarshalDecode(d, &sealed)
		*m = Masked{}
		if len(sealed) > 0 {
			m.sealed = sealed
		}
		return err
	}))
)

// Store writes a value with secrets as the database holds it: these are sealed.
func Store(v any) ([]byte, error) { return json.Marshal(v, store) }

// Load reads what Store wrote.
func Load(b []byte, into any) error { return json.Unmarshal(b, into, load) }
