package resource

import (
	"fmt"
	"reflect"
	"slices"

	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// Secrets reports the state of a kind's secrets. Embed it after Meta. It is filled in before a row is served, and so is the field
// named after each secret with the suffix _configured.
type Secrets struct {
	EnterAgain []string `json:"enter_again" readOnly:"true" db:"-" doc:"The secrets that were stored with another master key. They cannot be read, and must be entered again."`
}

// secretState locates the fields in which a row reports the state of its secrets.
type secretState struct {
	again      []int
	configured map[string][]int // by name of the secret
}

func newSecretState(t reflect.Type) secretState {
	where, secrets := secretState{configured: map[string][]int{}}, false
	names := map[string]wire.Field{}
	for _, f := range wire.Fields(t) {
		names[f.Name] = f
	}
	for _, f := range names {
		secrets = secrets || f.Stored && (isSealed(f) || isPacked(f))
		if is, ok := names[f.Name+"_configured"]; ok && isSealed(f) {
			where.configured[f.Name] = is.Index
		}
	}
	where.again = names["enter_again"].Index
	if secrets && where.again == nil {
		panic(fmt.Sprintf("%s has secrets and does not embed resource.Secrets", t))
	}
	return where
}

// complete fills in derived fields before a row is served.
func (k *kind) complete(v record) {
	if k.codec.secrets.again != nil {
		k.reportSecrets(v)
	}
	if k.View != nil {
		k.View(v)
	}
}

// reportSecrets fills in which secrets are set and which must be entered again. Secrets that the gateway generates are not among
// the latter: it makes new ones.
func (k *kind) reportSecrets(v record) {
	row, again := reflect.ValueOf(v).Elem(), []string{}
	var made []string
	if k.Made != nil {
		made = k.Made(v)
	}
	for i, f := range k.codec.fields {
		field := row.FieldByIndex(f.Index)
		switch {
		case isSealed(f):
			text := field.Interface().(secret.Text)
			readable := k.box.Readable(text)
			if !readable && !slices.Contains(made, f.Name) {
				again = append(again, f.Name)
			}
			if at := k.codec.secrets.configured[f.Name]; at != nil {
				row.FieldByIndex(at).SetBool(text.Set() && readable)
			}
		case k.codec.packed[i]:
			again = append(again, k.box.Unreadable(f.Name, field.Interface())...)
		}
	}
	row.FieldByIndex(k.codec.secrets.again).Set(reflect.ValueOf(again))
}
