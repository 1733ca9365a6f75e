package audit

import (
	"context"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/fault"
)

// channel is where the database announces each committed entry, whichever program or node wrote it.
const channel = "audit_entries"

func (l *Log) announced(ctx context.Context, payload string) ([]Entry, error) {
	id, err := uuid.Parse(payload)
	if err != nil {
		return nil, err
	}
	e, err := l.Get(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil // pruned in the meantime
	}
	return []Entry{e}, err
}

// Follow calls send with the newest n entries, oldest first, and then with each new one when it is committed, until ctx ends,
// send fails or the database becomes unavailable.
func (l *Log) Follow(ctx context.Context, n int, send func(Entry) error) error {
	return l.live.Follow(ctx, n, send)
}
