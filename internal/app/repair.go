package app

import (
	"context"
	"errors"
	"io/fs"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/setup"
)

// RunRepair runs gateway-repair: it grants the wish for a repair of replication, if there is one.
func RunRepair(ctx context.Context, cfg Config) error {
	level, err := cfg.Level()
	if err != nil {
		return err
	}
	k, err := newKit(cfg, level)
	if err != nil {
		return err
	}
	defer k.DB.Close()
	if _, err := cluster.Job.Wish(k.Host); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	store, err := setup.OpenStore(k.Paths)
	if err != nil {
		return err
	}
	house, err := Build(k, store, password.New(password.Cost))
	if err != nil {
		return err
	}
	if err := k.DB.Attach(ctx, schema.Migrations); err != nil {
		return err
	}
	return house.Cluster.GrantRepair(ctx)
}
