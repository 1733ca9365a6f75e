package tunnel

import (
	"fmt"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// open opens a stored key; the absent one stays absent.
func (r *Room) open(s secret.Text, table, column string, row uuid.UUID) (Key, error) {
	plain, err := s.Open(r.Secrets, table, column, row.String())
	if err != nil || plain == "" {
		return Key{}, err
	}
	k, err := value.Parse[Key](plain)
	if err != nil {
		return Key{}, fmt.Errorf("the %s of %s is none", column, row) // without the text itself
	}
	return k, nil
}
