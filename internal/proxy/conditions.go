package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/watch"
)

var backendDown = &alarm.Kind{
	Name: "backend.down", Severity: alarm.Error, Mutable: true, Meaning: "No server of a backend answers, so its sites are down.",
}

// Check finds backends without an available server.
var Check = watch.Check{
	Name: "watch.backends", Title: "Check for backends that are down", Every: time.Minute,
	Kinds: []*alarm.Kind{backendDown}, Conditions: conditions,
}

func conditions(ctx context.Context, s *watch.Scene) (found []alarm.Alarm, err error) {
	rows, err := watch.Get[[]Backend](ctx, s, "/backends")
	if err != nil {
		return nil, err
	}
	stats, err := watch.Get[Stats](ctx, s, "/proxy/stats")
	if err == nil && stats.Error != "" {
		err = errors.New("the state of the servers is not known: " + stats.Error)
	}
	if err != nil {
		return nil, err
	}
	for i := range rows {
		id, down, usable := rows[i].ID.String(), 0, false
		for _, x := range stats.Backends {
			switch {
			case x.BackendID != id, x.Server == "BACKEND", x.Status == "MAINT":
			case x.Status == "DOWN":
				down++
			default:
				usable = true
			}
		}
		if down == 0 || usable {
			continue
		}
		message := fmt.Sprintf("All %d servers are down.", down)
		if down == 1 {
			message = "Its only server is down."
		}
		found = append(found, alarm.Alarm{Kind: backendDown, Key: id, Subject: "Backend " + rows[i].Name.String(), Message: message})
	}
	return found, nil
}
