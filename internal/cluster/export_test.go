package cluster

import (
	"context"
	"time"

	"edge.internal/gateway/internal/kit/httpd"
)

// Beat is one heartbeat.
func (r *Room) Beat(ctx context.Context) error {
	s, err := Load(ctx, r.DB)
	if err != nil {
		return err
	}
	r.beat(ctx, s)
	return nil
}

// Judge is what a node does about what others say: the word, and whom it is about.
func Judge(mine State, me string, heard []Identity) (do, whom string) {
	v := judge(mine, me, heard)
	return v.do, v.whom.ID
}

// Expires is when the node's certificate ends.
func (r *Room) Expires() (subject string, serial string) {
	leaf := r.identity.Load().own.Leaf
	return leaf.Subject.CommonName, leaf.SerialNumber.String()
}

// RenewBefore is when a certificate is renewed that ends.
const (
	RenewBefore      = renewBefore
	CertificateLasts = certificateLasts
)

// AgentRoutes are all routes of the agent listener.
func (r *Room) AgentRoutes() []string {
	var routes []string
	for _, route := range r.agents.Routes() {
		routes = append(routes, route.Method+" "+httpd.Prefix+route.Path)
	}
	return routes
}

// Patience is how long another node may take to answer this one when it is promoted.
func (r *Room) Patience(id string, force bool) time.Duration { return r.patience(id, force) }
