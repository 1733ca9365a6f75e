package dns

import (
	"context"
	"sync"

	"edge.internal/gateway/internal/kit/db"
)

// Config is everything that unbound's files depend on.
type Config struct {
	Settings Settings `json:"settings"`
	Zones    []Zone   `json:"zones"`
	Records  []Record `json:"records"`

	compile  sync.Once
	compiled *model
	failed   error
}

func (r *Room) load(ctx context.Context, q db.Querier) (*Config, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return nil, err
	}
	zones, err := r.zones.All(ctx, q)
	if err != nil {
		return nil, err
	}
	records, err := r.records.All(ctx, q)
	return &Config{Settings: *s, Zones: zones, Records: records}, err
}

// model returns the configuration in unbound's terms.
func (c *Config) model() (*model, error) {
	c.compile.Do(func() { c.compiled, c.failed = build(c) })
	return c.compiled, c.failed
}
