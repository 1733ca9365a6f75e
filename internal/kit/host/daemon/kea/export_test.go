package kea

import (
	"context"
	"encoding/json"
)

// AskAnything sends a command that need not be in the closed list.
func AskAnything(ctx context.Context, l Leases, c Command, arguments json.RawMessage) (json.RawMessage, error) {
	return l.(*live).ask(ctx, c, arguments)
}
