// Package setup owns the first decisions about the machine: the store that keeps them, and the wizard's routes.
package setup

import (
	"fmt"
	"net/http"
	"os"
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
}

// Room is the setup.
type Room struct {
	*kit.Kit
	deps      Deps
	guesses   *throttle.Throttle
	completed atomic.Bool
}

// New builds the room. While the setup is not complete it makes the setup token and prints it, but not into the journal, which others
// read and which is kept.
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

// Completed tells whether the setup is complete. Every request asks, and it never becomes incomplete again.
func (r *Room) Completed() bool {
	if !r.completed.Load() && r.deps.Store.View().Completed {
		r.completed.Store(true)
	}
	return r.completed.Load()
}

// Status is where the setup stands.
type Status struct {
	Completed          bool   `json:"completed" doc:"Whether the setup is complete."`
	IsClusterNode      bool   `json:"is_cluster_node" doc:"Whether the machine is a node of a cluster."`
	FQDN               string `json:"fqdn" doc:"Full name of the gateway; empty before the setup."`
	SetupTokenRequired bool   `json:"setup_token_required" doc:"Whether this caller needs the setup token to complete the setup."`
}

func (r *Room) status(c *httpd.Call) Status {
	s := r.deps.Store.View()
	return Status{Completed: s.Completed, IsClusterNode: s.IsClusterNode, FQDN: s.FQDN.String(), SetupTokenRequired: !s.Completed && needsToken(c.Client())}
}

// Mount adds the room's routes.
func (r *Room) Mount() {
	httpd.Handle(r.Router, http.MethodGet, "/setup/status", httpd.Public.BeforeSetup(),
		httpd.Doc{ID: "setup.status", Tag: "setup", Summary: "Where the setup stands"},
		func(c *httpd.Call, _ struct{}) (Status, error) { return r.status(c), nil })
	mount(r, "/setup/complete", httpd.Doc{ID: "setup.complete", Summary: "Set up a gateway with its own admin", Audit: "setup.complete"}, r.complete)
	mount(r, "/setup/complete-node", httpd.Doc{ID: "setup.complete-node", Summary: "Set up a node of a cluster, whose accounts come from the cluster", Audit: "setup.complete"}, r.completeNode)
	mount(r, "/setup/join-cluster", httpd.Doc{ID: "setup.join-cluster", Summary: "Join a cluster", Audit: "setup.join-cluster"}, r.joinCluster)
}
