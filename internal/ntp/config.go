package ntp

import (
	"context"

	"edge.internal/gateway/internal/kit/db"
)

// Config is everything that chrony.conf depends on.
type Config struct {
	Settings Settings `json:"settings"`
	Pools    []Pool   `json:"pools"`
}

func (r *Room) load(ctx context.Context, q db.Querier) (Config, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return Config{}, err
	}
	p, err := r.pools.All(ctx, q)
	return Config{Settings: *s, Pools: p}, err
}
