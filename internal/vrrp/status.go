package vrrp

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/httpd"
)

// Status says where the virtual addresses are, as this node sees it.
type Status struct {
	// Clustered is needed besides State because a single node has its virtual addresses without keepalived.
	Clustered bool             `json:"clustered" doc:"Whether the virtual addresses move between nodes. Without a cluster, the gateway itself holds the addresses of its interfaces."`
	State     keepalived.State `json:"state" enum:",master,backup,fault,stop" doc:"What this node is: master holds the virtual addresses, backup waits for them, fault cannot hold them because an interface is down. Empty while keepalived does not run."`
	Since     *time.Time       `json:"since" doc:"Since when it is that."`
	Addresses []string         `json:"addresses" doc:"The virtual addresses that move between the nodes."`
	Drained   bool             `json:"drained" doc:"Whether this node gives the virtual addresses to any other that can have them."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/cluster/vip-status", httpd.Read, httpd.Doc{ID: "cluster.vip-status", Tag: "cluster", Summary: "Whether this node has the virtual addresses, and since when"},
		func(c *httpd.Call, _ struct{}) (Status, error) { return r.Status(c, r.DB) })
}

// Status reports whether this node has the virtual addresses, and since when.
func (r *Room) Status(ctx context.Context, q db.Querier) (Status, error) {
	c, err := r.load(ctx, q)
	if err != nil {
		return Status{}, err
	}
	s := Status{Clustered: c.Clustered, Addresses: []string{}}
	for _, v := range c.VIPs {
		s.Addresses = append(s.Addresses, v.Address.Addr().String())
	}
	if s.Drained, err = r.Drained(); err != nil {
		return s, err
	}
	state, err := r.Host.State(ctx, unit)
	if err != nil || state.Active != "active" {
		return s, err
	}
	if p := r.now(); p.State != "" {
		s.State, s.Since = p.State, &p.Since
	}
	return s, nil
}

// path is the file with keepalived's state: keepalived reports it once, and the gateway may be restarted after that.
func (r *Room) path() string { return r.Paths.State("vrrp.json") }

// remember reads it. If that fails, the kernel shows keepalived's state, but not since when.
func (r *Room) remember() {
	var kept place
	if b, err := os.ReadFile(r.path()); err == nil && json.Unmarshal(b, &kept) == nil {
		r.router = kept
	}
}

// now returns keepalived's present state.
func (r *Room) now() place {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.router
}

// Run follows keepalived's state until the context ends.
func (r *Room) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.Host.FollowRouter(ctx, r.become)
		if err != nil && !errors.Is(err, host.ErrNotInstalled) {
			r.Log.Warn("keepalived's state cannot be followed", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-r.Clock.After(followAgain):
		}
	}
}

// followAgain is the pause before keepalived is followed again.
const followAgain = 5 * time.Second

func (r *Room) become(s keepalived.State) {
	if r.note(s) && r.deps.Moved != nil {
		r.deps.Moved()
	}
}

// note stores the state, and reports whether it has changed.
func (r *Room) note(s keepalived.State) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.router.State == s {
		return false
	}
	r.Log.Info("the virtual addresses", "this node is", s)
	r.router = place{s, r.Clock.Now()}
	b, err := json.Marshal(r.router)
	if err == nil {
		err = os.WriteFile(r.path(), b, 0o600)
	}
	if err != nil {
		r.Log.Warn("keepalived's state cannot be stored", "err", err)
	}
	return true
}

// seen corrects what keepalived has reported, or failed to report, by the kernel's state.
func (r *Room) seen(master bool) {
	switch is := r.now().State; {
	case master:
		r.become(keepalived.Master)
	case is == keepalived.Master || is == "":
		r.become(keepalived.Backup)
	}
}

const (
	// movesWithin is how long another node may take to get the addresses.
	movesWithin = 20 * time.Second
	on, off     = "1\n", "0\n"
)

// Drained reports whether this node gives the virtual addresses away.
func (r *Room) Drained() (bool, error) {
	b, err := r.Host.Read(keepalived.Drain)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrNotInstalled) {
		return false, nil
	}
	return string(b) == on, err
}

// Drain makes another node take the virtual addresses, without a moment in which none has them, and returns when that is done. Until the
// drain is ended, this node has them only if no other can. A reboot ends it, too.
func (r *Room) Drain(ctx context.Context, drain bool) error {
	value := off
	if drain {
		value = on
	}
	if err := r.Host.Install(keepalived.Drain, []byte(value)); err != nil || !drain {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, movesWithin)
	defer cancel()
	for {
		s, err := r.Status(ctx, r.DB)
		switch {
		case err == nil && s.State != keepalived.Master:
			return nil
		case ctx.Err() != nil:
			return fault.New(fault.Unavailable, "No other node has taken over the virtual addresses. This node keeps them until another one can.")
		case err != nil:
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}
