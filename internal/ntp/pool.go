package ntp

import (
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Pool is one upstream time source: a single server, or a name that resolves to many.
type Pool struct {
	resource.Meta
	Kind    string     `json:"kind" enum:"pool,server" doc:"Whether the name is a single server or a pool."`
	Address value.Host `json:"address" required:"true" doc:"Host name or IP address."`
	IBurst  bool       `json:"iburst" doc:"Send a burst at start for a faster first sync."`
	Prefer  bool       `json:"prefer" doc:"Prefer this source while it is healthy."`
	MinPoll int        `json:"minpoll" minimum:"-6" maximum:"24" doc:"Shortest polling interval, log2 seconds."`
	MaxPoll int        `json:"maxpoll" minimum:"-6" maximum:"24" doc:"Longest polling interval, log2 seconds."`
}

func (p *Pool) Validate() error {
	var c check.List
	c.That(p.MinPoll <= p.MaxPoll, "minpoll", "must not be greater than maxpoll")
	return c.Err()
}

func (p *Pool) Label() string { return p.Address.String() }

var pools = resource.Kind[Pool]{
	Name: "ntp.pool", Title: "time source", Path: "/ntp/pools", Table: "ntp_pools", Order: "address",
	Feeds: []apply.ID{apply.NTP},
	New:   func() Pool { return Pool{Kind: "pool", IBurst: true, MinPoll: 6, MaxPoll: 10} },
}
