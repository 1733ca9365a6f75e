package proxy

import (
	"bytes"
	"context"
	"errors"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/value"
)

// HAProxy cannot add a backend while it runs. So it always has some spare ones: without servers, in the form that a new backend usually has. A
// new row of that form gets the id of a spare backend and needs no reload. When there are none left, the next one needs a reload, which brings
// new spare ones.

// spareCount is the number of spare backends that a reload brings.
const spareCount = 8

// usualBackend returns a new backend with its defaults.
func usualBackend() Backend {
	return Backend{
		Scheme: "http", LBAlgorithm: "roundrobin", Active: true,
		HealthCheckEnabled: true, HealthCheckPath: value.Must[Path]("/"), HealthCheckMethod: "GET", HealthCheckExpect: value.Must[StatusList]("200-399"), HealthCheckInterval: 5,
	}
}

func spareBackend(id uuid.UUID) Backend {
	b := usualBackend()
	b.ID = id
	return b
}

// likeSpare reports whether HAProxy's section of the backend, without servers, is that of a spare one.
func (b *Backend) likeSpare() bool {
	section := func(b Backend) ([]byte, error) {
		w := conf.New(conf.HAProxy)
		renderBackend(w, &pool{Backend: b})
		return w.Bytes()
	}
	mine, err1 := section(*b)
	spare, err2 := section(spareBackend(b.ID))
	return b.Active && err1 == nil && err2 == nil && bytes.Equal(mine, spare)
}

// takeSpare returns the id for a new backend, and takes it from the spare ones. It is the nil UUID if none fits.
func (r *Room) takeSpare(ctx context.Context, tx *db.Tx, now *Backend) (uuid.UUID, error) {
	if !now.likeSpare() {
		return uuid.Nil, nil
	}
	// A preview locks the one that it takes for its supposition. Ids that were chosen for a row are no longer spare.
	var id *uuid.UUID
	err := tx.QueryRow(ctx, `
		WITH taken AS (DELETE FROM proxy_spares WHERE id = (
			SELECT id FROM proxy_spares s WHERE NOT EXISTS (SELECT FROM proxy_backends b WHERE b.id = s.id) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id)
		SELECT (SELECT id FROM taken)`).Scan(&id)
	if err != nil {
		return uuid.Nil, err
	}
	if id != nil {
		return *id, nil
	}
	for range spareCount {
		spare, err := uuid.NewV7()
		if err != nil {
			return uuid.Nil, err
		}
		tx.Queue("INSERT INTO proxy_spares (id) VALUES ($1)", spare)
	}
	return uuid.Nil, nil
}

func loadSpares(ctx context.Context, q db.Querier) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := q.QueryRow(ctx, "SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM proxy_spares").Scan(&ids)
	return ids, err
}

// keepSpares records which backends of the running HAProxy are spare.
func (r *Room) keepSpares(c *Config) {
	spares := make(map[string]bool, len(c.Spares))
	for _, id := range c.Spares {
		spares[backendName(id).String()] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spares = spares
}

// planBackend: HAProxy has the backend already if it was a spare one.
func (r *Room) planBackend(row apply.Row) apply.Step {
	now, ok := row.Now.(*Backend)
	if _, there := row.Was.(*Backend); !ok || there || !now.likeSpare() {
		return nil
	}
	name := backendName(now.ID).String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.spares[name] {
		return nil
	}
	return func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.spares[name] {
			return errors.New("haproxy no longer has a spare backend of this id")
		}
		delete(r.spares, name)
		return nil
	}
}
