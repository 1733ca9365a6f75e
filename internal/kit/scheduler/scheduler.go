// Package scheduler runs periodic jobs: one process at a time runs each of them, for a limited time, and its result is recorded.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/rescue"
)

type Job struct {
	Name string
	// Title says what it does, for people.
	Title string
	Every time.Duration
	// Jitter is how much earlier or later it may run, so that not all gateways act at the same time.
	Jitter time.Duration
	// Night runs it once a night, at a random time that is chosen when the program starts.
	Night bool
	// FromBoot counts the time from the boot of the machine: the first run is at the first tick after it. If the program is
	// restarted, no tick is lost or used twice. A run that could not begin (fault.Unavailable) does not use up its tick: it is
	// retried every minute.
	FromBoot bool
	// Later skips the run at program start.
	Later bool
	// Where says which nodes of a cluster run it.
	Where Where
	// Within limits the duration of a run; five minutes if zero.
	Within time.Duration
	Do     func(ctx context.Context) error
}

// JobFailed is raised for a job that crashes or takes too long. Jobs report their findings themselves.
var JobFailed = &alarm.Kind{
	Name: "job.failed", Severity: alarm.Error, Mutable: true, Meaning: "A job crashed or did not finish in time.",
}

// Where says which nodes of a cluster run a job.
type Where string

const (
	// EveryNode is for jobs about each node's own data.
	EveryNode Where = "node"
	// Primary is for jobs about shared data. A standby does not run them.
	Primary Where = "primary"
)

const (
	// The hours of the night, by the machine's clock.
	nightBegins, nightEnds = 1, 5
	usually                = 5 * time.Minute
	// grace is how long a job that was asked to stop may take to do so.
	grace = 10 * time.Second
	// tickEvery is how often a job that counts from the boot is checked, and requestEvery how often requested runs are, if none
	// is announced.
	tickEvery, requestEvery = time.Minute, 10 * time.Second
	// attachEvery is how often a job checks for the database.
	attachEvery = time.Second
	// retry is the delay before a failed job is retried, if its next run is later; soon is that for one that was too early.
	retry, soon = time.Minute, 10 * time.Second
	stopWithin  = 10 * time.Second
)

// channel is where the database announces requested runs.
const channel = "scheduler_jobs"

// Scheduler runs jobs.
type Scheduler struct {
	*kit.Kit
	jobs []Job
	// attach reconnects to the database.
	attach func(ctx context.Context) error
	locks  *db.Locks
	timers map[string]gocron.Job
	work   sync.WaitGroup
	grace  time.Duration
	retry  time.Duration
	soon   time.Duration

	// tidying keeps jobs from mistaking tidy's lock for that of another program.
	tidying sync.RWMutex

	mu      sync.Mutex
	retried map[string]bool // jobs that are about to be retried; under mu
}

func New(k *kit.Kit, jobs []Job, attach func(ctx context.Context) error) *Scheduler {
	placed(jobs)
	return &Scheduler{Kit: k, jobs: jobs, attach: attach, locks: k.DB.Locks(), timers: map[string]gocron.Job{}, grace: grace, retry: retry, soon: soon, retried: map[string]bool{}}
}

// placed panics if a job does not say where it runs.
func placed(jobs []Job) {
	for _, j := range jobs {
		if j.Where == "" {
			panic("job " + j.Name + " does not say which nodes do it")
		}
	}
}

func (j *Job) timing() gocron.JobDefinition {
	switch {
	case j.Night:
		minute := rand.UintN((nightEnds - nightBegins) * 60)
		return gocron.DailyJob(1, gocron.NewAtTimes(gocron.NewAtTime(nightBegins+minute/60, minute%60, rand.UintN(60))))
	case j.FromBoot:
		return gocron.DurationJob(min(tickEvery, j.Every))
	case j.Jitter == 0:
		return gocron.DurationJob(j.Every)
	}
	return gocron.DurationRandomJob(j.Every-j.Jitter, j.Every+j.Jitter)
}

func (j *Job) options() []gocron.JobOption {
	options := []gocron.JobOption{gocron.WithName(j.Name), gocron.WithSingletonMode(gocron.LimitModeReschedule)}
	if !j.Night && !j.Later {
		options = append(options, gocron.WithStartAt(gocron.WithStartImmediately()))
	}
	return options
}

func (j *Job) within() time.Duration {
	if j.Within == 0 {
		return usually
	}
	return j.Within
}

// Run runs the jobs until ctx ends. It calls ready when all of them are scheduled.
func (s *Scheduler) Run(ctx context.Context, ready func()) error {
	timer, err := gocron.NewScheduler(gocron.WithStopTimeout(stopWithin))
	if err != nil {
		return err
	}
	for _, j := range s.jobs {
		if s.timers[j.Name], err = timer.NewJob(j.timing(), gocron.NewTask(func() { s.turn(ctx, j, false) }), j.options()...); err != nil {
			return fmt.Errorf("job %s: %w", j.Name, err)
		}
	}
	timer.Start()
	ready()
	s.work.Go(func() { s.followRequests(ctx) })
	<-ctx.Done()
	err = timer.Shutdown()
	s.work.Wait()
	s.locks.Close()
	return err
}

// turn runs a job as soon as the database is available, unless it is running already.
func (s *Scheduler) turn(ctx context.Context, j Job, wanted bool) {
	for !s.DB.Attached() {
		if err := s.attach(ctx); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-s.Clock.After(attachEvery):
		}
	}
	if j.Where == Primary {
		var mine bool
		if err := s.DB.QueryRow(ctx, "SELECT ha_writable()").Scan(&mine); err != nil || !mine {
			return // a standby, or a node that cannot tell
		}
	}
	s.tidying.RLock()
	release, free, err := s.locks.Try(ctx, "job "+j.Name)
	s.tidying.RUnlock()
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("a job is waiting for the database", "job", j.Name, "err", err)
	}
	if err != nil || !free {
		return
	}
	t, err := s.tick(ctx, &j, wanted)
	if err == nil && t.due {
		err = s.once(ctx, j, t, release)
	} else {
		if err == nil && t.next != nil {
			err = s.note(ctx, j.Name, *t.next)
		}
		release()
	}
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("the result of a job could not be recorded", "job", j.Name, "err", err)
	}
}

// tick says whether a job runs now, and when next if it counts from the boot.
type tick struct {
	last, next *time.Time // nil if the timer decides
	due        bool
}

// tick decides whether a job runs now, by its schedule or on request. A request may have been served in the meantime.
func (s *Scheduler) tick(ctx context.Context, j *Job, wanted bool) (tick, error) {
	if !j.FromBoot && !wanted {
		return tick{due: true}, nil
	}
	var used *time.Time
	var requested bool
	err := s.DB.QueryRow(ctx, `SELECT tick, wanted_at IS NOT NULL FROM scheduler_jobs WHERE name = $1`, j.Name).Scan(&used, &requested)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return tick{}, err
	}
	if !j.FromBoot {
		return tick{due: requested}, nil
	}
	x, err := s.Host.Resources()
	if err != nil {
		return tick{}, err
	}
	last, next := ticks(s.Clock.Now(), x.Uptime, j.Every)
	// Computed times of the same tick differ slightly if the clock was corrected; different ticks are more than half an interval
	// apart.
	if last.IsZero() || used != nil && last.Sub(*used) < j.Every/2 {
		return tick{last: used, next: &next, due: requested}, nil
	}
	return tick{last: &last, next: &next, due: true}, nil
}

// ticks returns the last and the next tick of a job that counts from the boot; last is zero before the first.
func ticks(now time.Time, uptime, every time.Duration) (last, next time.Time) {
	boot := now.Add(-uptime)
	n := uptime / every
	if n > 0 {
		last = boot.Add(n * every)
	}
	return last, boot.Add((n + 1) * every)
}

func (s *Scheduler) note(ctx context.Context, name string, next time.Time) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`INSERT INTO scheduler_jobs (name, next_at) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET next_at = $2`, name, next)
		return nil
	})
}

// once runs a job, and releases its lock when it has ended. A job that exceeds its time is not waited for, and does not start
// again until it has ended.
func (s *Scheduler) once(ctx context.Context, j Job, t tick, release func()) error {
	began := s.Clock.Now()
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`INSERT INTO scheduler_jobs (name, started_at, next_at, result) VALUES ($1, $2, $3, 'running')
			ON CONFLICT (name) DO UPDATE SET started_at = $2, next_at = coalesce($3, scheduler_jobs.next_at), result = 'running', wanted_at = NULL, wanted_by = ''`, j.Name, began, t.next)
		return nil
	})
	if err != nil {
		release()
		return err
	}
	doing, cancel := context.WithTimeout(ctx, j.within())
	defer cancel()
	over := make(chan outcome, 1)
	go func() { over <- s.do(doing, j) }()
	// The lock is released after the result was recorded: otherwise tidy would take this run for an interrupted one. A retry needs
	// the lock, and waits only then.
	var pause time.Duration
	defer func() {
		release()
		if pause > 0 {
			s.again(ctx, j, pause)
		}
	}()
	var o outcome
	select {
	case o = <-over:
	case <-doing.Done():
		select {
		case o = <-over:
		case <-s.Clock.After(s.grace):
			o = outcome{result: overdue, err: errors.New("it does not stop")}
			end := release
			release = func() { go func() { <-over; end() }() }
		}
	}
	if ctx.Err() != nil {
		return s.interrupted(context.WithoutCancel(ctx), j.Name)
	}
	pause, err = s.finish(ctx, j, began, t.last, o)
	return err
}

// Results of a run.
const (
	ok       = "ok"
	failed   = "failed"
	panicked = "panicked"
	overdue  = "overdue"
)

type outcome struct {
	result string
	err    error
}

func (s *Scheduler) do(ctx context.Context, j Job) outcome {
	crashed, err := s.safely(ctx, j)
	switch {
	case crashed:
		return outcome{panicked, err}
	case err == nil:
		return outcome{result: ok}
	case ctx.Err() == context.DeadlineExceeded:
		return outcome{overdue, err}
	}
	return outcome{failed, err}
}

// safely runs a job, and reports whether it crashed.
func (s *Scheduler) safely(ctx context.Context, j Job) (crashed bool, err error) {
	crashed = true
	defer rescue.Into(&err, s.Log, "the job "+j.Name)
	err = j.Do(ctx)
	return false, err
}

// explain describes a failed run for people.
func (o *outcome) explain(j *Job) string {
	switch {
	case o.result == ok:
		return ""
	case o.result == panicked:
		return "It crashed because of a bug in the gateway."
	case o.result == overdue:
		return fmt.Sprintf("It did not finish within %s.", j.within())
	}
	if f, known := errors.AsType[*fault.Error](o.err); known && f.Message != "" {
		return f.Message
	}
	return "It failed. See the log of gateway-scheduler."
}

// finish records the result of a run, and raises or clears the alarm about it. It returns the delay before a retry, which is zero if
// there is none.
func (s *Scheduler) finish(ctx context.Context, j Job, began time.Time, tick *time.Time, o outcome) (pause time.Duration, err error) {
	detail := ""
	if o.err != nil {
		detail = o.err.Error()
		level := slog.LevelError
		if fault.Is(o.err, fault.Unavailable) {
			level = slog.LevelDebug // it is too early, or something is unavailable that is reported elsewhere
		}
		s.Log.Log(ctx, level, "job failed", "job", j.Name, "result", o.result, "err", o.err)
	}
	next, early := s.next(&j), o.result == failed && fault.Is(o.err, fault.Unavailable)
	if early && j.FromBoot {
		at := s.Clock.Now().Add(tickEvery)
		tick, next = nil, &at
	} else if o.result == failed {
		if pause = s.pause(&j, early); pause > 0 {
			at := s.Clock.Now().Add(pause)
			next = &at
		}
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`UPDATE scheduler_jobs SET ended_at = $2, result = $3, error = $4, detail = $5, next_at = coalesce($6, next_at), tick = coalesce($8, tick), runs = runs + 1, failures = CASE WHEN $3 = 'ok' THEN 0 ELSE failures + 1 END
			WHERE name = $1 AND started_at = $7`, j.Name, s.Clock.Now(), o.result, o.explain(&j), detail, next, began, tick)
		return nil
	})
	if o.result == panicked || o.result == overdue {
		err = errors.Join(err, s.Alarms.Raise(ctx, alarm.Alarm{Kind: JobFailed, Key: j.Name, Subject: "Job " + j.Name, Message: o.explain(&j)}))
	} else if o.result == ok {
		err = errors.Join(err, s.Alarms.Clear(ctx, JobFailed, j.Name))
	}
	return pause, err
}

// pause returns the delay before a failed job is retried; zero if its next run is sooner, or if the job has a fixed schedule.
func (s *Scheduler) pause(j *Job, early bool) time.Duration {
	pause := s.retry
	if early {
		pause = s.soon
	}
	if j.Night || j.FromBoot || j.Every <= pause {
		return 0
	}
	return pause
}

// next returns when the timer next runs a job; nil if unknown, or counted from the boot.
func (s *Scheduler) next(j *Job) *time.Time {
	timer := s.timers[j.Name]
	if timer == nil || j.FromBoot {
		return nil
	}
	at, err := timer.NextRun()
	if err != nil || at.IsZero() {
		return nil
	}
	return &at
}

// again retries a job after the pause.
func (s *Scheduler) again(ctx context.Context, j Job, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retried[j.Name] {
		return
	}
	s.retried[j.Name] = true
	s.work.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-s.Clock.After(pause):
		}
		s.mu.Lock()
		delete(s.retried, j.Name)
		s.mu.Unlock()
		s.turn(ctx, j, false)
	})
}

// interrupted records that a run was cut short by the end of the program. Its tick is not used up.
func (s *Scheduler) interrupted(ctx context.Context, name string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`UPDATE scheduler_jobs SET ended_at = $2, result = 'failed', error = 'It was cut short, because the program ended.', detail = '' WHERE name = $1 AND result = 'running'`, name, s.Clock.Now())
		return nil
	})
}

// tidy does the same for runs of a process that ended without recording it, and records when each job is next due.
func (s *Scheduler) tidy(ctx context.Context) error {
	for _, j := range s.jobs {
		if err := s.tidyOne(ctx, &j); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scheduler) tidyOne(ctx context.Context, j *Job) error {
	s.tidying.Lock()
	defer s.tidying.Unlock()
	release, free, err := s.locks.Try(ctx, "job "+j.Name)
	if err != nil || !free {
		return err
	}
	defer release()
	err = s.interrupted(ctx, j.Name)
	if next := s.next(j); err == nil && next != nil {
		err = s.note(ctx, j.Name, *next)
	}
	return err
}

// followRequests starts the runs that operators request.
func (s *Scheduler) followRequests(ctx context.Context) {
	requests := make(chan struct{}, 1)
	s.work.Go(func() {
		s.DB.Wake(ctx, channel, requests, func() <-chan time.Time { return s.Clock.After(requestEvery) })
	})
	for tidied := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-requests:
		case <-s.Clock.After(requestEvery):
		}
		tidied = tidied || s.tidy(ctx) == nil
		names, err := s.requested(ctx)
		if err != nil {
			continue // the database is unavailable
		}
		for _, name := range names {
			if i := slices.IndexFunc(s.jobs, func(j Job) bool { return j.Name == name }); i >= 0 {
				s.work.Go(func() { s.turn(ctx, s.jobs[i], true) })
			}
		}
	}
}

func (s *Scheduler) requested(ctx context.Context) ([]string, error) {
	rows, err := s.DB.Query(ctx, `SELECT name FROM scheduler_jobs WHERE wanted_at IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
