package hosttest

import (
	"context"
	"io/fs"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
)

// repairs are those of the machine in memory. What grants a wish is lent by a test; without it, nothing does.
type repairs struct {
	wish  host.RepairWish
	grant func()
}

func (m *Machine) BeginRepair(_ context.Context, force bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.repairs.wish.ID != "" {
		return host.ErrRepairRuns
	}
	m.repairs.wish = host.RepairWish{ID: uuid.Must(uuid.NewV7()).String(), At: time.Now().UTC(), Force: force}
	if m.repairs.grant != nil {
		go m.repairs.grant()
	}
	return nil
}

func (m *Machine) RepairWish() (host.RepairWish, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.repairs.wish.ID == "" {
		return host.RepairWish{}, fs.ErrNotExist
	}
	return m.repairs.wish, nil
}

func (m *Machine) EndRepair(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.repairs.wish.ID == id {
		m.repairs.wish = host.RepairWish{}
	}
	return nil
}

// LendRepair lends what grants a wish for a repair while the caller goes on.
func (m *Machine) LendRepair(grant func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repairs.grant = grant
}
