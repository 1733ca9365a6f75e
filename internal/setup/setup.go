// Package setup makes the first decisions about the machine: it has the store that keeps them, and the wizard's routes.
package setup

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/throttle"
)

// Deps is what the room needs besides the kit.
type Deps struct {
	Store     *Store
	Passwords *password.Hasher
	// Join makes this machine a node of a cluster, and gives it its name there.
	Join func(ctx context.Context, in Join) error
	// Decided is called when the setup is complete. It may be nil.
	Decided func(ctx context.Context)
	// Joining returns the current step of a join; empty if there is none. It may be nil.
	Joining func() string
}

type Room struct {
	*kit.Kit
	deps      Deps
	guesses   *throttle.Throttle
	completed atomic.Bool
	joining   sync.RWMutex // locked to join a cluster, read-locked to complete the setup
}

// New builds the room. Until the setup is complete it creates the setup token and prints it, but not to the journal, which is
// kept, and which others can read.
func New(k *kit.Kit, d Deps) (*Room, error) {
	r := &Room{Kit: k, deps: d, guesses: throttle.New(k.Clock, throttle.Guessing)}
	if r.Completed() {
		return r, removeToken(k.Paths)
	}
	token, err := ensureToken(k.Paths)
	if err != nil {
		return nil, err
	}
	if os.Getenv("JOURNAL_STREAM") != "" {
		token = "gateway-ctl setup-token prints it"
	}
	k.Log.Info(fmt.Sprintf("the gateway is not set up yet; setup token: %s", token))
	return r, nil
}

// Completed reports whether the setup is complete. Every request asks, and it never becomes incomplete again.
func (r *Room) Completed() bool {
	if !r.completed.Load() && r.deps.Store.View().Completed {
		r.completed.Store(true)
	}
	return r.completed.Load()
}

// Status is the state of the setup.
type Status struct {
	Completed          bool   `json:"completed" doc:"Whether the setup is complete."`
	IsClusterNode      bool   `json:"is_cluster_node" doc:"Whether the machine is a node of a cluster."`
	FQDN               string `json:"fqdn" doc:"Full name of the gateway; empty before the setup."`
	SetupTokenRequired bool   `json:"setup_token_required" doc:"Whether this caller needs the setup token to complete the setup."`
	JoinStep           string `json:"join_step" enum:",certificate,register,master-key,sync" doc:"What is being done while the machine joins a cluster; empty otherwise."`
}

func (r *Room) status(c *httpd.Call) Status {
	s := r.deps.Store.View()
	out := Status{Completed: s.Completed, IsClusterNode: s.IsClusterNode, FQDN: s.FQDN.String(), SetupTokenRequired: !s.Completed && needsToken(c.Client())}
	if r.deps.Joining != nil {
		out.JoinStep = r.deps.Joining()
	}
	return out
}

func (r *Room) Mount() {
	httpd.Handle(r.Router, http.MethodGet, "/setup/status", httpd.Public.BeforeSetup(),
		httpd.Doc{ID: "setup.status", Tag: "setup", Summary: "State of the setup"},
		func(c *httpd.Call, _ struct{}) (Status, error) { return r.status(c), nil })
	mount(r, "/setup/complete", httpd.Doc{ID: "setup.complete", Summary: "Set up a gateway with its own administrator", Audit: "setup.complete"}, nil, r.complete)
	mount(r, "/setup/complete-node", httpd.Doc{ID: "setup.complete-node", Summary: "Set up a node of a cluster, whose accounts come from the cluster", Audit: "setup.complete"}, nil, r.completeNode)
	mount(r, "/setup/join-cluster", httpd.Doc{ID: "setup.join-cluster", Summary: "Join a cluster", Audit: "setup.join-cluster"}, r.again, r.joinCluster)
}
