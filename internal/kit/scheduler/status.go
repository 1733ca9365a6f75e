package scheduler

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

// Status is a job and its last result.
type Status struct {
	Name         string     `json:"name" doc:"Name of the job."`
	Title        string     `json:"title" doc:"What it does."`
	EverySeconds int64      `json:"every_seconds" doc:"Interval; a nightly job runs once a day."`
	When         string     `json:"when" enum:"interval,night,boot" doc:"How it is scheduled: by interval, once a night, or counted from boot."`
	Where        string     `json:"where" enum:"node,primary" doc:"Which nodes of a cluster run it: every node, or only the primary."`
	Result       string     `json:"result" enum:",running,ok,failed,panicked,overdue" doc:"Result of the last run; empty before the first. panicked: it crashed. overdue: it did not finish in time."`
	Error        string     `json:"error" doc:"Why it failed; empty on success."`
	Detail       string     `json:"detail" doc:"The program's own message, for administrators; empty for other users."`
	StartedAt    *time.Time `json:"started_at" doc:"When it was last started."`
	EndedAt      *time.Time `json:"ended_at" doc:"When the last run that has ended did so."`
	DurationMS   *int64     `json:"duration_ms" doc:"How long the last run took; null before the first, and while it runs."`
	Runs         int64      `json:"runs" doc:"How often it was run."`
	Failures     int64      `json:"failures" doc:"Failed runs since the last successful one."`
	NextAt       *time.Time `json:"next_at" doc:"When it is next run; null as long as that is not known."`
	WantedAt     *time.Time `json:"wanted_at" doc:"When a run was requested that has not started yet; null otherwise."`
}

// Mount adds the routes that list jobs and request runs. Another program runs the jobs.
func Mount(k *kit.Kit, jobs []Job) {
	placed(jobs)
	run := httpd.Doc{ID: "system.job.run", Tag: "system", Summary: "Run a job now. It continues after the answer", Audit: "system.job.run", OnPrimary: func(c *httpd.Call) (bool, error) {
		return slices.ContainsFunc(jobs, func(j Job) bool { return j.Name == c.Request.PathValue("name") && j.Where == Primary }), nil
	}}
	httpd.Handle(k.Router, http.MethodGet, "/system/jobs", httpd.Read, httpd.Doc{ID: "system.jobs", Tag: "system", Summary: "List the jobs and their last results"},
		func(c *httpd.Call, _ struct{}) ([]Status, error) { return list(c, k.DB, jobs) })
	httpd.Handle(k.Router, http.MethodPost, "/system/jobs/{name}/run", httpd.Write, run,
		func(c *httpd.Call, in struct {
			Name string `path:"name" doc:"Name of the job."`
		}) (Status, error) {
			if !slices.ContainsFunc(jobs, func(j Job) bool { return j.Name == in.Name }) {
				return Status{}, fault.New(fault.NotFound, "This job does not exist.")
			}
			err := k.DB.Write(c, func(tx *db.Tx) error {
				tx.Queue(`INSERT INTO scheduler_jobs (name, wanted_at, wanted_by) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET wanted_at = $2, wanted_by = $3`, in.Name, k.Clock.Now(), actor.From(c).Name)
				tx.Queue(`SELECT pg_notify($1, $2)`, channel, in.Name)
				return k.Audit.Write(c, tx, "system.job.run", in.Name, nil)
			})
			if err != nil {
				return Status{}, err
			}
			all, err := list(c, k.DB, jobs)
			if err != nil {
				return Status{}, err
			}
			return all[slices.IndexFunc(all, func(s Status) bool { return s.Name == in.Name })], nil
		})
}

func list(ctx context.Context, d *db.DB, jobs []Job) ([]Status, error) {
	rows, err := d.Query(ctx, `SELECT name, result, error, detail, started_at, ended_at, runs, failures, next_at, wanted_at FROM scheduler_jobs`)
	if err != nil {
		return nil, err
	}
	known := map[string]Status{}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Status, err error) {
		return s, row.Scan(&s.Name, &s.Result, &s.Error, &s.Detail, &s.StartedAt, &s.EndedAt, &s.Runs, &s.Failures, &s.NextAt, &s.WantedAt)
	})
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		known[s.Name] = s
	}
	all := make([]Status, len(jobs))
	for i, j := range jobs {
		s := known[j.Name]
		s.Name, s.Title, s.EverySeconds, s.When, s.Where = j.Name, j.Title, int64(j.Every.Seconds()), "interval", string(j.Where)
		switch {
		case j.Night:
			s.When, s.EverySeconds = "night", int64((24 * time.Hour).Seconds())
		case j.FromBoot:
			s.When = "boot"
		}
		if s.StartedAt != nil && s.EndedAt != nil && s.Result != "running" {
			ms := s.EndedAt.Sub(*s.StartedAt).Milliseconds()
			s.DurationMS = &ms
		}
		if actor.From(ctx).Role != actor.Admin {
			s.Detail = ""
		}
		all[i] = s
	}
	return all, nil
}
