package kea

import (
	"context"
	"encoding/json"
)

// AskAnything gives a live Kea a command that is in no list.
func AskAnything(ctx context.Context, l Leases, c Command, arguments json.RawMessage) (json.RawMessage, error) {
	return l.(*live).ask(ctx, c, arguments)
}
