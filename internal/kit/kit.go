// Package kit bundles what every room needs.
package kit

import (
	"log/slog"
	"path/filepath"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/outbound"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
)

// Kit is passed to every room when it is built.
type Kit struct {
	DB        *db.DB
	Audit     *audit.Log
	Changes   *changes.Log
	Alarms    *alarm.Port
	Engine    *apply.Engine
	Router    *httpd.Router
	Resources *resource.Registry
	Host      host.Machine
	Clock     clock.Clock
	Secrets   *secret.Box
	Outbound  *outbound.Door
	Log       *slog.Logger
	Paths     Paths
	// Version is the version of the running program.
	Version string
}

// New builds a kit. The database need not be available yet.
func New(d *db.DB, m host.Machine, c clock.Clock, log *slog.Logger, box *secret.Box, paths Paths, version string) *Kit {
	auditLog := audit.New(d, c, m.Facts().MachineID, paths.State("audit"))
	history := changes.New(d, c, m.Facts().MachineID)
	engine := apply.New(d, m, c, log, box, history, paths.State("good"))
	router := httpd.NewRouter(log)
	alarms := alarm.New(d, c)
	resources := resource.NewRegistry(d, auditLog, history, alarms, engine, router, c, box, log)
	for _, table := range []string{"audit_entries", "apply_revisions", "change_sets", "change_rows", "change_floor", "change_drafts"} {
		resources.Declare(table, resource.Passing)
	}
	for _, table := range []string{"audit_outbox", "apply_local_revisions", "alarm_conditions", "alarm_events", "alarm_outbox", "scheduler_jobs", "change_local_sets", "change_local_rows", "change_local_floor", "change_applies"} {
		resources.Declare(table, resource.Local)
	}
	return &Kit{
		DB: d, Audit: auditLog, Changes: history, Alarms: alarms, Engine: engine, Router: router, Host: m, Clock: c, Secrets: box, Outbound: outbound.New(m), Log: log, Paths: paths, Version: version,
		Resources: resources,
	}
}

// Paths are the folders of the gateway itself. Root is "/" unless the machine permits no namespaces.
type Paths struct {
	Root string
	// Aside replaces the state folder when a state is tried that is not the gateway's own.
	Aside string
}

// State returns the path of a file that the gateway must not lose.
func (p Paths) State(name string) string {
	if p.Aside != "" {
		return filepath.Join(p.Aside, name)
	}
	return filepath.Join(p.Root, "/var/lib/gateway", name)
}

func (p Paths) Backups(name string) string { return filepath.Join(p.Root, host.BackupFolder, name) }

// Config returns the path of a file that belongs to the machine.
func (p Paths) Config(name string) string { return filepath.Join(p.Root, "/etc/gateway", name) }

// Log returns the path of a file that the gateway writes for others to read.
func (p Paths) Log(name string) string { return filepath.Join(p.Root, "/var/log/gateway", name) }

func (p Paths) Run(name string) string { return filepath.Join(p.Root, "/run/gateway", name) }
