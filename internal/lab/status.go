package lab

import (
	"context"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// Status is the current state of a lab.
type Status struct {
	Dir     string           `json:"dir"`
	URL     string           `json:"url"`
	Started time.Time        `json:"started"`
	Reason  string           `json:"reason,omitempty"` // why there are no namespaces
	Units   []host.UnitState `json:"units"`
	Network []Address        `json:"network"`
}

// Address is one address on a side of the lab.
type Address struct {
	Side    Side   `json:"side"`
	Link    string `json:"link"`
	Address string `json:"address"`
}

// Status asks the supervisor.
func (l *Lab) Status(ctx context.Context) (Status, error) {
	units, err := l.Units().States(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Dir: l.dir, URL: l.URL(), Started: l.Started, Reason: l.Reason, Units: units, Network: []Address{}}
	if !l.Isolated() {
		return s, nil
	}
	for _, w := range l.wires() {
		for _, a := range w.Gateway {
			s.Network = append(s.Network, Address{Gateway, w.Link, a})
		}
		for _, a := range w.Client {
			s.Network = append(s.Network, Address{w.Side, clientLink, a})
		}
	}
	return s, nil
}

// Unable lists the daemons that cannot run in this lab.
func (l *Lab) Unable(ctx context.Context) ([]host.UnitState, error) {
	states, err := l.Units().States(ctx)
	if err != nil {
		return nil, err
	}
	var unable []host.UnitState
	for _, s := range states {
		if !s.Installed || !l.Isolated() && s.Active == "inactive" {
			unable = append(unable, s)
		}
	}
	return unable, nil
}
