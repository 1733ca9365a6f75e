package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// switched is a part of the database that can be turned off, to measure its cost.
type switched struct {
	pool    *pgxpool.Pool
	on, off []string
}

// replaces turns a function off by putting another one in its place.
func (s *switched) replaces(ctx context.Context, name, off string) error {
	var on string
	if err := s.pool.QueryRow(ctx, "SELECT pg_get_functiondef($1::regproc)", name).Scan(&on); err != nil {
		return err
	}
	s.on, s.off = append(s.on, on), append(s.off, off)
	return nil
}

// disables turns a trigger off.
func (s *switched) disables(table, trigger string) {
	s.on = append(s.on, "ALTER TABLE "+table+" ENABLE TRIGGER "+trigger)
	s.off = append(s.off, "ALTER TABLE "+table+" DISABLE TRIGGER "+trigger)
}

// newGuard is the guard of the tables that all nodes of a cluster share.
func newGuard(ctx context.Context, pool *pgxpool.Pool) (*switched, error) {
	s := &switched{pool: pool}
	for _, table := range []string{"account_users", "ntp_pools", "apply_revisions", "audit_entries"} {
		s.disables(table, "ha_guard")
	}
	return s, s.replaces(ctx, "audit_store", `CREATE OR REPLACE FUNCTION audit_store(id uuid, created_at timestamptz, actor text, action text, subject text, node_id text, details jsonb, request_id text)
		RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit_entries VALUES (id, created_at, actor, action, subject, node_id, details, request_id) ON CONFLICT DO NOTHING; END $$`)
}

// newHistory is the history of changes.
func newHistory(ctx context.Context, pool *pgxpool.Pool) (*switched, error) {
	s := &switched{pool: pool}
	for _, table := range []string{"account_users", "ntp_pools"} {
		s.disables(table, "change_kept")
	}
	s.on = append(s.on, "DROP RULE IF EXISTS change_off ON change_applies")
	s.off = append(s.off, "CREATE RULE change_off AS ON INSERT TO change_applies DO INSTEAD NOTHING")
	return s, s.replaces(ctx, "change_end", `CREATE OR REPLACE FUNCTION change_end(set_id uuid, created_at timestamptz, actor text, node_id text, request_id text, reason text, reverts uuid, revisions jsonb, confirm_by timestamptz)
		RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$`)
}

// rate measures with the part or without it, and leaves it on.
func (s *switched) rate(ctx context.Context, on bool, measure func() (float64, error)) (rate float64, err error) {
	if !on {
		if err := s.exec(ctx, s.off); err != nil {
			return 0, err
		}
		defer func() {
			if back := s.exec(ctx, s.on); err == nil {
				err = back
			}
		}()
	}
	return measure()
}

func (s *switched) exec(ctx context.Context, statements []string) error {
	for _, sql := range statements {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
