// Package scheduler owns what is done again and again: when, by one process at a time, for how long at most, and what came of it.
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

// Job is something that is done again and again.
type Job struct {
	Name string
	// Title says what it does, for people.
	Title string
	Every time.Duration
	// Jitter is how much earlier or later it may be, so that not every gateway comes at the same time.
	Jitter time.Duration
	// Night has it done once a night. When exactly, chance decides when the program starts.
	Night bool
	// FromBoot counts the time from the boot of the machine: the first run is at the first tick after it. A tick is neither lost nor used
	// twice when the program starts again. A run that could not begin (fault.Unavailable) does not use it up: it is tried again every minute.
	FromBoot bool
	// Later does without a run when the program starts.
	Later bool
	// Where says which nodes of a cluster do it.
	Where Where
	// Within is how long it may take; five minutes if it is zero.
	Within time.Duration
	Do     func(ctx context.Context) error
}

// JobFailed is reported of a job that crashes or takes too long. What it finds out it reports itself.
var JobFailed = &alarm.Kind{
	Name: "job.failed", Severity: alarm.Error, Mutable: true, Meaning: "A job crashed or did not finish in time.",
}

// Where says which nodes of a cluster do a job.
type Where string

const (
	// EveryNode is for what each node has of its own.
	EveryNode Where = "node"
	// Primary is for what all nodes share. A standby leaves it alone.
	Primary Where = "primary"
)

const (
	// The hours of the night, by the machine's clock.
	nightBegins, nightEnds = 1, 5
	usually                = 5 * time.Minute
	// grace is how long a job that has been told to stop may take to do so.
	grace = 10 * time.Second
	// tickEvery is how often a job that counts from the boot is looked at, and wishEvery how often wishes are, if none is announced.
	tickEvery, wishEvery = time.Minute, 10 * time.Second
	// attachEvery is how often a job looks whether the database is there.
	attachEvery = time.Second
	// retry is when a job is tried again that failed and would not be run for longer, and soon when one is for which it was too early.
	retry, soon = time.Minute, 10 * time.Second
	stopWithin  = 10 * time.Second
)

// channel is where the database announces wishes.
const channel = "scheduler_jobs"

// Scheduler runs jobs.
type Scheduler struct {
	*kit.Kit
	jobs []Job
	// attach brings the database back when it was away.
	attach func(ctx context.Context) error
	locks  *db.Locks
	timers map[string]gocron.Job
	wished sync.WaitGroup
	grace  time.Duration
	retry  time.Duration
	soon   time.Duration

	// tidying keeps jobs from taking a lock for that of another program which is tidy's.
	tidying sync.RWMutex

	mu      sync.Mutex
	retried map[string]bool // under mu: jobs that are about to be tried again
}

// New makes a scheduler of jobs.
func New(k *kit.Kit, jobs []Job, attach func(ctx context.Context) error) *Scheduler {
	placed(jobs)
	return &Scheduler{Kit: k, jobs: jobs, attach: attach, locks: k.DB.Locks(), timers: map[string]gocron.Job{}, grace: grace, retry: retry, soon: soon, retried: map[string]bool{}}
}

// placed makes sure that each job says where it is done.
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

// Run runs the jobs until the context ends. It tells when all of them have their times.
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
	s.wished.Go(func() { s.followWishes(ctx) })
	<-ctx.Done()
	err = timer.Shutdown()
	s.wished.Wait()
	s.locks.Close()
	return err
}

// turn runs a job once the database is there. One that runs already is left alone.
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
			return // a standby, or one that cannot tell
		}
	}
	s.tidying.RLock()
	release, free, err := s.locks.Try(ctx, "job "+j.Name)
	s.tidying.RUnlock()
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("a job has to wait for the database", "job", j.Name, "err", err)
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
		s.Log.Warn("what a job did could not be written down", "job", j.Name, "err", err)
	}
}

// tick is when a job runs that counts from the boot.
type tick struct {
	last, next *time.Time // nil where it is the timer that counts
	due        bool
}

// tick looks whether a job is to be run now, by its times or because it is wanted. A wish may have been granted in the meantime.
func (s *Scheduler) tick(ctx context.Context, j *Job, wanted bool) (tick, error) {
	if !j.FromBoot && !wanted {
		return tick{due: true}, nil
	}
	var used *time.Time
	var wish bool
	err := s.DB.QueryRow(ctx, `SELECT tick, wanted_at IS NOT NULL FROM scheduler_jobs WHERE name = $1`, j.Name).Scan(&used, &wish)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return tick{}, err
	}
	if !j.FromBoot {
		return tick{due: wish}, nil
	}
	x, err := s.Host.Resources()
	if err != nil {
		return tick{}, err
	}
	last, next := ticks(s.Clock.Now(), x.Uptime, j.Every)
	// Ticks are some moments apart when the clock was corrected; other ticks are further apart than half the time between two.
	if last.IsZero() || used != nil && last.Sub(*used) < j.Every/2 {
		return tick{last: used, next: &next, due: wish}, nil
	}
	return tick{last: &last, next: &next, due: true}, nil
}

// ticks are the last tick of a job that counts from the boot, which is zero before the first, and the next.
func ticks(now time.Time, uptime, every time.Duration) (last, next time.Time) {
	boot := now.Add(-uptime)
	n := uptime / every
	if n > 0 {
		last = boot.Add(n * every)
	}
	return last, boot.Add((n + 1) * every)
}

// note writes down when a job is next due.
func (s *Scheduler) note(ctx context.Context, name string, next time.Time) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`INSERT INTO scheduler_jobs (name, next_at) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET next_at = $2`, name, next)
		return nil
	})
}

// once runs a job, and gives its lock back when it has ended. A job that does not end in time is not waited for, and does not begin
// again as long as it runs.
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
	// The lock is given back after the run was written down, or a search for runs that were cut short would find this one.
	defer func() { release() }()
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
	return s.finish(ctx, j, began, t.last, o)
}

// The results of a run.
const (
	ok       = "ok"
	failed   = "failed"
	panicked = "panicked"
	overdue  = "overdue"
)

// outcome is what came of a run.
type outcome struct {
	result string
	err    error
}

func (s *Scheduler) do(ctx context.Context, j Job) outcome {
	fell, err := s.safely(ctx, j)
	switch {
	case fell:
		return outcome{panicked, err}
	case err == nil:
		return outcome{result: ok}
	case ctx.Err() == context.DeadlineExceeded:
		return outcome{overdue, err}
	}
	return outcome{failed, err}
}

// safely runs a job, and tells whether it crashed.
func (s *Scheduler) safely(ctx context.Context, j Job) (fell bool, err error) {
	fell = true
	defer rescue.Into(&err, s.Log, "the job "+j.Name)
	err = j.Do(ctx)
	return false, err
}

// explain is what people are told about a run that went wrong.
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

// finish writes down what came of a run, and raises or clears the alarm about it.
func (s *Scheduler) finish(ctx context.Context, j Job, began time.Time, tick *time.Time, o outcome) error {
	detail := ""
	if o.err != nil {
		detail = o.err.Error()
		level := slog.LevelError
		if fault.Is(o.err, fault.Unavailable) {
			level = slog.LevelDebug // it is too early, or something is away that is told of elsewhere
		}
		s.Log.Log(ctx, level, "job failed", "job", j.Name, "result", o.result, "err", o.err)
	}
	next, early := s.next(&j), o.result == failed && fault.Is(o.err, fault.Unavailable)
	if early && j.FromBoot {
		at := s.Clock.Now().Add(tickEvery)
		tick, next = nil, &at
	} else if o.result == failed {
		pause := s.retry
		if early {
			pause = s.soon
		}
		if s.again(ctx, j, pause) {
			at := s.Clock.Now().Add(pause)
			next = &at
		}
	}
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`UPDATE scheduler_jobs SET ended_at = $2, result = $3, error = $4, detail = $5, next_at = coalesce($6, next_at), tick = coalesce($8, tick), runs = runs + 1, failures = CASE WHEN $3 = 'ok' THEN 0 ELSE failures + 1 END
			WHERE name = $1 AND started_at = $7`, j.Name, s.Clock.Now(), o.result, o.explain(&j), detail, next, began, tick)
		return nil
	})
	if o.result == panicked || o.result == overdue {
		err = errors.Join(err, s.Alarms.Raise(ctx, alarm.Alarm{Kind: JobFailed, Key: j.Name, Subject: "Job " + j.Name, Message: o.explain(&j)}))
	} else if o.result == ok {
		err = errors.Join(err, s.Alarms.Clear(ctx, JobFailed, j.Name))
	}
	return err
}

// next is when a job is run next by the timer; nil where it is not known, or counted from the boot.
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

// again tries a job again soon, unless it would be run soon anyway, or its times are not to be played with.
func (s *Scheduler) again(ctx context.Context, j Job, pause time.Duration) bool {
	if j.Night || j.FromBoot || j.Every <= pause {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.retried[j.Name] {
		s.retried[j.Name] = true
		s.wished.Go(func() {
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
	return true
}

// interrupted notes that a run was cut short by the end of the program. Its tick is not used up.
func (s *Scheduler) interrupted(ctx context.Context, name string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`UPDATE scheduler_jobs SET ended_at = $2, result = 'failed', error = 'It was cut short, because the program ended.', detail = '' WHERE name = $1 AND result = 'running'`, name, s.Clock.Now())
		return nil
	})
}

// tidy notes the same of what runs by the word of a process that has ended without a word, and when each job is run next.
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

// followWishes runs what operators want to run now.
func (s *Scheduler) followWishes(ctx context.Context) {
	wishes := make(chan struct{}, 1)
	s.wished.Go(func() { s.DB.Wake(ctx, channel, wishes, func() <-chan time.Time { return s.Clock.After(wishEvery) }) })
	for tidied := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-wishes:
		case <-s.Clock.After(wishEvery):
		}
		tidied = tidied || s.tidy(ctx) == nil
		names, err := s.wanted(ctx)
		if err != nil {
			continue // the database is away
		}
		for _, name := range names {
			if i := slices.IndexFunc(s.jobs, func(j Job) bool { return j.Name == name }); i >= 0 {
				s.wished.Go(func() { s.turn(ctx, s.jobs[i], true) })
			}
		}
	}
}

func (s *Scheduler) wanted(ctx context.Context) ([]string, error) {
	rows, err := s.DB.Query(ctx, `SELECT name FROM scheduler_jobs WHERE wanted_at IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
