package license

import (
	"context"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/watch"
)

var invalid = &alarm.Kind{
	Name: "license.invalid", Severity: alarm.Error, Mutable: true, Meaning: "The license is not valid.",
}

// Check checks whether the license is valid.
var Check = watch.Check{
	Name: "watch.license", Title: "Check the license", Primary: true, Every: time.Hour,
	Kinds: []*alarm.Kind{invalid}, Conditions: conditions,
}

func conditions(ctx context.Context, s *watch.Scene) ([]alarm.Alarm, error) {
	x, err := watch.Get[Record](ctx, s, "/license")
	if err != nil || x.Status != Invalid {
		return nil, err
	}
	return []alarm.Alarm{{Kind: invalid, Subject: "License", Message: x.Reason}}, nil
}
