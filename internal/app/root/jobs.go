package root

import (
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/network"
	"edge.internal/gateway/internal/kit/job"
)

const (
	// servesWithin is how long a version may take until it serves, on a slow machine with many rows to migrate.
	servesWithin = 5 * time.Minute
	// answersWithin is how long it may take until it answers, which needs no database: as long as systemd lets gateway-helper start, and after
	// it gateway-api.
	answersWithin = 2 * time.Minute
	// consolePort is where HAProxy serves the console.
	consolePort = 3443
)

// Service describes the gateway to the jobs of root.
func Service(paths kit.Paths) job.Service {
	return job.Service{Control: paths.Run("control.sock"), Port: consolePort, Holders: func(port int) (names []string, err error) {
		users, err := network.New(home.Home{}).PortUsers(port)
		for _, u := range users {
			names = append(names, u.Program)
		}
		return names, err
	}}
}

// Waiting is how long the jobs of root wait for the gateway to serve.
var Waiting = job.Waiting{Patience: servesWithin, Silence: answersWithin, Every: time.Second}
