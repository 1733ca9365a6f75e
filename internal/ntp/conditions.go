package ntp

import (
	"context"
	"errors"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/watch"
)

var unsynchronised = &alarm.Kind{
	Name: "ntp.unsync", Severity: alarm.Warning, Mutable: true, Meaning: "The clock of this machine is not synchronised.",
}

// Check checks whether the clock follows a source.
var Check = watch.Check{
	Name: "watch.clock", Title: "Check that the clock is synchronised", Every: 10 * time.Minute, Later: true,
	Kinds: []*alarm.Kind{unsynchronised}, Conditions: conditions,
}

// settles is how long the clock may take to follow a source after the machine has started.
const settles = 10 * time.Minute

func conditions(ctx context.Context, s *watch.Scene) ([]alarm.Alarm, error) {
	x, err := watch.Get[Status](ctx, s, "/ntp/status")
	if err == nil && x.Error != "" {
		err = errors.New("the time daemon does not answer: " + x.Error)
	}
	if err != nil {
		return nil, err
	}
	machine, err := s.Host.Resources()
	if err != nil {
		return nil, err
	}
	if machine.Uptime < settles {
		return nil, watch.ErrTooEarly
	}
	if x.Stratum != 0 && x.Stratum < 16 && strings.Trim(x.ReferenceID, "0") != "" {
		return nil, nil
	}
	return []alarm.Alarm{{Kind: unsynchronised, Subject: "Clock", Message: "The clock is not synchronised. Check that the time sources can be reached."}}, nil
}
