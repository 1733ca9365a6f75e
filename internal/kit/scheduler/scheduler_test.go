package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// Nightly jobs do not run when the program starts, and not at the same minute everywhere.
func TestNight(t *testing.T) {
	s, err := gocron.NewScheduler()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}()
	minutes := map[string]bool{}
	var planned []gocron.Job
	for range 50 {
		j := Job{Name: "night", Night: true}
		p, err := s.NewJob(j.timing(), gocron.NewTask(func() {}), j.options()...)
		if err != nil {
			t.Fatal(err)
		}
		planned = append(planned, p)
	}
	s.Start()
	for _, p := range planned {
		at, err := p.NextRun()
		if err != nil || at.Hour() < nightBegins || at.Hour() >= nightEnds {
			t.Fatalf("it is done at %s, %v", at, err)
		}
		minutes[at.Format("15:04")] = true
	}
	if len(minutes) < 10 {
		t.Errorf("of 50 gateways all come at %v", minutes)
	}
}

func TestTicksFromTheBoot(t *testing.T) {
	boot := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, x := range []struct {
		uptime     time.Duration
		last, next time.Duration
	}{{0, 0, day}, {day - 1, 0, day}, {day, day, 2 * day}, {3*day + time.Hour, 3 * day, 4 * day}} {
		last, next := ticks(boot.Add(x.uptime), x.uptime, day)
		if last.IsZero() != (x.last == 0) || x.last > 0 && !last.Equal(boot.Add(x.last)) || !next.Equal(boot.Add(x.next)) {
			t.Errorf("up for %s: %s and %s", x.uptime, last, next)
		}
	}
}

// started runs a scheduler until the test ends, or stop is called.
func started(t *testing.T, b *kittest.Bench, jobs ...Job) (s *Scheduler, stop func()) {
	t.Helper()
	s = New(b.Kit, jobs, func(context.Context) error { return errors.New("there is a database") })
	s.grace = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	over, ready := make(chan error, 1), make(chan struct{})
	go func() { over <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

func job(t *testing.T, b *kittest.Bench, name string, wanted func(Status) bool) Status {
	t.Helper()
	var is Status
	waittest.UntilNil(t, name+" is as wanted", func() error {
		var list []Status
		b.Get(t, "/system/jobs").Want(t, http.StatusOK).Into(t, &list)
		i := slices.IndexFunc(list, func(s Status) bool { return s.Name == name })
		if i < 0 || !wanted(list[i]) {
			return fmt.Errorf("%+v", list)
		}
		is = list[i]
		return nil
	})
	return is
}

func bench(t *testing.T, jobs ...Job) *kittest.Bench {
	t.Helper()
	b := kittest.New(t)
	Mount(b.Kit, jobs)
	b.Start(t)
	return b
}

func ended(s Status) bool { return s.Result != "" && s.Result != "running" }

func TestJobsTellWhatCameOfThem(t *testing.T) {
	jobs := []Job{
		{Name: "good", Title: "goes well", Where: EveryNode, Every: time.Hour, Do: func(context.Context) error { return nil }},
		{Name: "bad", Title: "fails", Where: EveryNode, Every: time.Hour, Do: func(context.Context) error { return errors.New("SELECT s3cret FROM x") }},
		{Name: "refused", Title: "is refused", Where: EveryNode, Every: time.Hour, Do: func(context.Context) error { return fault.New(fault.Unavailable, "Try later.") }},
		{Name: "later", Title: "waits", Where: EveryNode, Every: time.Hour, Later: true, Do: func(context.Context) error { return nil }},
	}
	b := bench(t, jobs...)
	started(t, b, jobs...)
	if s := job(t, b, "good", ended); s.Result != ok || s.DurationMS == nil || s.Runs != 1 || s.Error != "" || s.NextAt == nil || s.Title != "goes well" || s.EverySeconds != 3600 {
		t.Errorf("%+v", s)
	}
	if s := job(t, b, "refused", ended); s.Result != failed || s.Error != "Try later." || s.Failures != 1 {
		t.Errorf("%+v", s)
	}
	if s := job(t, b, "bad", ended); s.Result != failed || s.Error != "It failed. See the log of gateway-scheduler." || s.Detail != "SELECT s3cret FROM x" {
		t.Errorf("%+v", s)
	}
	var list []Status
	b.Do(t, "viewer", http.MethodGet, "/system/jobs", nil).Want(t, http.StatusOK).Into(t, &list)
	for _, s := range list {
		if s.Detail != "" {
			t.Errorf("a viewer sees %q", s.Detail)
		}
	}
	if s := list[3]; s.Result != "" || s.StartedAt != nil {
		t.Errorf("it was run at the start: %+v", s)
	}
	job(t, b, "later", func(s Status) bool { return s.NextAt != nil })
	if open, err := b.Alarms.Open(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("a job that fails alerts by its own kind, if at all: %+v %v", open, err)
	}
}

// The primary alone runs jobs about shared data, and a standby does as soon as it becomes the primary.
func TestStandbyLeavesSharedJobsAlone(t *testing.T) {
	var shared, own atomic.Int32
	count := func(n *atomic.Int32) func(context.Context) error {
		return func(context.Context) error { n.Add(1); return nil }
	}
	jobs := []Job{
		{Name: "shared", Title: "is done once in the cluster", Where: Primary, Every: 20 * time.Millisecond, Do: count(&shared)},
		{Name: "own", Title: "is done by each node", Where: EveryNode, Every: 20 * time.Millisecond, Do: count(&own)},
	}
	b := bench(t, jobs...)
	for _, role := range []string{"standby", "fenced", "stepping-down"} {
		dbtest.Exec(t, b.DB, "UPDATE ha_state SET role = '"+role+"'")
		before := own.Load()
		if role == "standby" {
			started(t, b, jobs...)
		}
		waittest.Until(t, "the node's own job was done some times", func() bool { return own.Load() >= before+5 })
	}
	if n := shared.Load(); n != 0 {
		t.Errorf("it was done %d times", n)
	}
	for _, role := range []string{"primary", "single"} {
		dbtest.Exec(t, b.DB, "UPDATE ha_state SET role = '"+role+"'")
		before := shared.Load()
		waittest.Until(t, "it is done by "+role, func() bool { return shared.Load() >= before+2 })
	}
}

func TestRunNow(t *testing.T) {
	var runs atomic.Int32
	jobs := []Job{{Name: "later", Title: "waits", Where: EveryNode, Every: time.Hour, Later: true, Do: func(context.Context) error { runs.Add(1); return nil }}}
	b := bench(t, jobs...)
	started(t, b, jobs...)
	b.Do(t, "viewer", http.MethodPost, "/system/jobs/later/run", nil).Want(t, http.StatusForbidden)
	b.Do(t, "admin", http.MethodPost, "/system/jobs/none/run", nil).Want(t, http.StatusNotFound)
	b.Do(t, "admin", http.MethodPost, "/system/jobs/later/run", nil).Want(t, http.StatusOK)
	if s := job(t, b, "later", ended); s.Result != ok || s.WantedAt != nil || runs.Load() != 1 {
		t.Errorf("%+v, %d runs", s, runs.Load())
	}
	if b.Audited(t, "system.job.run") != 1 {
		t.Error("no audit entry")
	}
}

// A job that crashes and one that hangs are ended and reported, and harm no other.
func TestPanicAndHang(t *testing.T) {
	heals := &atomic.Bool{}
	blocked := make(chan struct{})
	var others atomic.Int32
	jobs := []Job{
		{Name: "crashes", Title: "crashes", Where: EveryNode, Every: time.Hour, Do: func(context.Context) error {
			if heals.Load() {
				return nil
			}
			panic("index out of range")
		}},
		{Name: "slow", Title: "ends when it is told to", Where: EveryNode, Every: time.Hour, Within: 50 * time.Millisecond, Do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		{Name: "hangs", Title: "does not listen", Where: EveryNode, Every: time.Hour, Within: 50 * time.Millisecond, Do: func(context.Context) error { <-blocked; return nil }},
		{Name: "other", Title: "goes on", Where: EveryNode, Every: 100 * time.Millisecond, Do: func(context.Context) error { others.Add(1); return nil }},
	}
	b := bench(t, jobs...)
	defer close(blocked)
	started(t, b, jobs...)
	if s := job(t, b, "crashes", ended); s.Result != panicked || s.Error == "" {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{"slow", "hangs"} {
		if s := job(t, b, name, ended); s.Result != overdue || s.Error != "It did not finish within 50ms." {
			t.Errorf("%+v", s)
		}
	}
	had := others.Load()
	job(t, b, "other", func(Status) bool { return others.Load() > had+2 })
	alarms(t, b, 3)
	// A hanging job does not start again, even on request; a recovered job clears its alarm.
	heals.Store(true)
	b.Do(t, "admin", http.MethodPost, "/system/jobs/hangs/run", nil).Want(t, http.StatusOK)
	b.Do(t, "admin", http.MethodPost, "/system/jobs/crashes/run", nil).Want(t, http.StatusOK)
	job(t, b, "crashes", func(s Status) bool { return s.Result == ok })
	if s := job(t, b, "hangs", func(Status) bool { return true }); s.Runs != 1 || s.WantedAt == nil {
		t.Errorf("%+v", s)
	}
	alarms(t, b, 2)
}

// alarms waits until n alarms are open: the status of a job changes a moment before its alarm.
func alarms(t *testing.T, b *kittest.Bench, n int) {
	t.Helper()
	waittest.UntilNil(t, fmt.Sprintf("%d alarms are open", n), func() error {
		open, err := b.Alarms.Open(t.Context())
		if err == nil && len(open) != n {
			err = fmt.Errorf("%+v", open)
		}
		return err
	})
}

// A failed job is retried soon if its next run is far away.
func TestRetry(t *testing.T) {
	var runs atomic.Int32
	jobs := []Job{{Name: "hourly", Title: "works the third time", Where: EveryNode, Every: time.Hour, Do: func(context.Context) error {
		if runs.Add(1) < 3 {
			return fault.New(fault.Unavailable, "It is too early.")
		}
		return nil
	}}}
	b := bench(t, jobs...)
	s := New(b.Kit, jobs, nil)
	s.soon = time.Nanosecond // a retry that is due before the result of the run is recorded is not lost
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Run(ctx, func() {}) }()
	if s := job(t, b, "hourly", func(s Status) bool { return s.Result == ok }); s.Runs != 3 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// A run that could not begin does not use up the tick of a job that counts from the boot: it is retried within minutes. One that
// began does, whatever its result.
func TestTickIsKeptUntilARunBegins(t *testing.T) {
	const day = 24 * time.Hour
	runs, answer := 0, error(fault.New(fault.Unavailable, "Something else is running."))
	daily := Job{Name: "daily", Title: "is done daily", Where: EveryNode, Every: day, FromBoot: true, Do: func(context.Context) error {
		runs++
		return answer
	}}
	b := bench(t, daily)
	b.Machine.SetResources(host.Resources{Uptime: day + time.Hour})
	s := New(b.Kit, []Job{daily}, nil)
	defer s.locks.Close()
	for n := 1; n <= 2; n++ {
		s.turn(t.Context(), daily, false)
		if st := job(t, b, "daily", ended); runs != n || st.Error != "Something else is running." || st.NextAt == nil || time.Until(*st.NextAt) > 10*time.Minute {
			t.Fatalf("%d runs: %+v", runs, st)
		}
	}
	answer = errors.New("the disk is full")
	for range 2 {
		s.turn(t.Context(), daily, false)
		if st := job(t, b, "daily", ended); runs != 3 || st.NextAt == nil || time.Until(*st.NextAt) < time.Hour {
			t.Fatalf("%d runs: %+v", runs, st)
		}
	}
}

// Two programs with the same jobs run each of them once at a time.
func TestSingleFlightOverProcesses(t *testing.T) {
	var now, most, runs atomic.Int32
	jobs := []Job{{Name: "one", Title: "runs alone", Where: EveryNode, Every: 20 * time.Millisecond, Do: func(context.Context) error {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
		runs.Add(1)
		return nil
	}}}
	b := bench(t, jobs...)
	started(t, b, jobs...)
	started(t, b, jobs...)
	job(t, b, "one", func(Status) bool { return runs.Load() > 30 })
	if most.Load() != 1 {
		t.Errorf("%d at the same time", most.Load())
	}
}

type shifted struct {
	clock.Clock
	by atomic.Int64
}

func (s *shifted) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.by.Load())) }

// BK-13: the first run is at the first tick after the boot, and a restart of the program neither loses nor repeats one.
func TestBK13TicksSurviveARestart(t *testing.T) {
	const day = 24 * time.Hour
	var runs atomic.Int32
	hold := make(chan struct{}, 1)
	begun := make(chan struct{}, 10)
	jobs := []Job{
		{Name: "daily", Title: "is done daily", Where: EveryNode, Every: day, FromBoot: true, Do: func(ctx context.Context) error {
			begun <- struct{}{}
			select {
			case hold <- struct{}{}:
				runs.Add(1)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
		{Name: "mark", Title: "says that time has passed", Where: EveryNode, Every: 20 * time.Millisecond, Do: func(context.Context) error { return nil }},
	}
	b := bench(t, jobs...)
	later := &shifted{Clock: clock.Real}
	b.Kit.Clock = later
	up := func(d time.Duration) {
		later.by.Store(int64(d))
		b.Machine.SetResources(host.Resources{Uptime: d})
	}
	looked := func() {
		t.Helper()
		before := job(t, b, "mark", func(Status) bool { return true }).Runs
		job(t, b, "mark", func(s Status) bool { return s.Runs > before+5 })
	}
	up(day - time.Hour)
	_, stop := started(t, b, jobs...)
	if s := job(t, b, "daily", func(s Status) bool { return s.NextAt != nil }); s.Result != "" || s.NextAt.Sub(later.Now()) > 2*time.Hour {
		t.Fatalf("before the first tick: %+v", s)
	}
	stop()
	// The program ends in the middle of the run: the tick is not lost.
	up(day + time.Minute)
	hold <- struct{}{}
	_, stop = started(t, b, jobs...)
	<-begun
	stop()
	if s := job(t, b, "daily", ended); s.Result != failed || runs.Load() != 0 {
		t.Fatalf("%+v", s)
	}
	<-hold
	_, stop = started(t, b, jobs...)
	job(t, b, "daily", func(s Status) bool { return s.Result == ok })
	stop()
	<-hold
	// It is not repeated, not even when the clock was corrected by seconds.
	up(day + 2*time.Minute + 3*time.Second)
	_, stop = started(t, b, jobs...)
	looked()
	stop()
	if runs.Load() != 1 {
		t.Fatalf("%d runs", runs.Load())
	}
	up(2*day + time.Second)
	_, stop = started(t, b, jobs...)
	job(t, b, "daily", func(s Status) bool { return s.Runs == 2 })
	stop()
	if runs.Load() != 2 {
		t.Fatalf("%d runs", runs.Load())
	}
}
