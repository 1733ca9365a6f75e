package cluster

import (
	"context"
	"time"

	"edge.internal/gateway/internal/kit/httpd"
)

// Beat runs one heartbeat.
func (r *Room) Beat(ctx context.Context) error {
	s, err := Load(ctx, r.DB)
	if err != nil {
		return err
	}
	r.beat(ctx, s)
	return nil
}

// Judge returns the decision of a node, and which node it is about.
func Judge(mine State, me string, reports []Identity) (do, node string) {
	v := judge(mine, me, reports)
	return v.do, v.node.ID
}

// Expires identifies the node's certificate.
func (r *Room) Expires() (subject string, serial string) {
	leaf := r.identity.Load().own.Leaf
	return leaf.Subject.CommonName, leaf.SerialNumber.String()
}

const (
	RenewBefore      = renewBefore
	CertificateLasts = certificateLasts
)

// AgentRoutes lists all routes of the agent listener.
func (r *Room) AgentRoutes() []string {
	var routes []string
	for _, route := range r.agents.Routes() {
		routes = append(routes, route.Method+" "+httpd.Prefix+route.Path)
	}
	return routes
}

// Patience returns how long another node may take to answer during a promotion.
func (r *Room) Patience(id string, force bool) time.Duration { return r.patience(id, force) }
