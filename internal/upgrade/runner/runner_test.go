package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/job"
)

const (
	former = "1.0.0"
	next   = "1.1.0"
)

// killed is the panic of a killed run.
type killed struct{ point string }

// fakeEffects is a machine in memory: a package, its programs and their database. Every effect has points before, within and after it
// where the run can be killed.
type fakeEffects struct {
	// trouble is what is wrong with the new version, or with the machine.
	trouble string
	// The next run is killed at the nth visit of a point; without a name it is not. passed counts the visits.
	killAt string
	nth    int
	passed map[string]int
	// during is called within an effect.
	during func(effect string)

	installed string
	half      bool   // dpkg was interrupted
	up        bool   // the programs were started
	schema    string // of the database: the version that has migrated it
	data      string
	backups   map[string][2]string
	fetched   map[string]bool
	cleaned   bool
}

func newFake(trouble string) *fakeEffects {
	return &fakeEffects{trouble: trouble, installed: former, up: true, schema: former, data: "precious", backups: map[string][2]string{}, fetched: map[string]bool{}, passed: map[string]int{}}
}

func (f *fakeEffects) point(name string) {
	if f.passed[name]++; name == f.killAt && f.passed[name] == f.nth {
		panic(killed{name})
	}
	if f.during != nil && strings.HasSuffix(name, " within") {
		f.during(strings.TrimSuffix(name, " within"))
	}
}

// boot does what the machine does after a power cut: it starts the installed programs.
func (f *fakeEffects) boot() {
	f.killAt, f.passed = "", map[string]int{}
	f.start()
}

func (f *fakeEffects) start() {
	f.up = !f.half && !(f.installed == next && f.trouble == "does not start")
	if f.up && f.installed > f.schema && f.trouble != "migration fails" {
		f.schema, f.data = f.installed, "migrated"
	}
}

func (f *fakeEffects) Installed(context.Context) (string, error) { return f.installed, nil }

func (f *fakeEffects) Live(context.Context, job.Waiting) []string {
	return []string{"dns", "reverse-proxy"}
}

func (f *fakeEffects) Fetch(_ context.Context, version string) (host.PackageFile, error) {
	f.point("fetch within")
	if f.trouble == "no former package" && version == former {
		return host.PackageFile{}, errors.New("apt knows no such version")
	}
	f.fetched[version] = true
	f.point("fetch after")
	return host.PackageFile{Version: version, File: version + ".deb"}, nil
}

func (f *fakeEffects) BackUp(_ context.Context, id string) error {
	f.point("back-up before")
	f.up = false
	f.point("back-up within")
	f.backups[id] = [2]string{f.schema, f.data}
	f.point("back-up after")
	return nil
}

func (f *fakeEffects) Verify(_ context.Context, id string, _, _ host.PackageFile) error {
	f.point("verify within")
	if f.trouble == "no space" {
		return errors.New("there is not enough space")
	}
	if f.backups[id] == [2]string{} || !f.fetched[former] || !f.fetched[next] {
		return errors.New("something is missing")
	}
	return nil
}

func (f *fakeEffects) Resume(context.Context) error { f.start(); return nil }

func (f *fakeEffects) Install(ctx context.Context, p host.PackageFile) error {
	f.point("install before")
	f.installed, f.half = p.Version, true
	fmt.Fprintln(job.Output(ctx), "unpacking http://user:canary@example.net/pool")
	f.point("install within")
	if f.trouble == "installation fails" {
		return errors.New("dpkg ended with status 1")
	}
	f.half = false
	f.start()
	f.point("install after")
	return nil
}

func (f *fakeEffects) Reinstall(_ context.Context, p host.PackageFile) error {
	f.point("reinstall before")
	f.installed, f.half = p.Version, true
	f.point("reinstall within")
	if f.trouble == "no way back" {
		f.trouble = "does not start"
		return errors.New("dpkg ended with status 2")
	}
	f.half = false
	f.start()
	f.point("reinstall after")
	return nil
}

func (f *fakeEffects) Restore(_ context.Context, id string) error {
	f.point("restore before")
	f.up = false
	f.point("restore within")
	b, ok := f.backups[id]
	if !ok {
		return errors.New("there is no backup")
	}
	f.schema, f.data = b[0], b[1]
	f.start()
	f.point("restore after")
	return nil
}

func (f *fakeEffects) Ready(_ context.Context, version string, live []string) error {
	f.point("ready " + version + " within")
	switch {
	case !f.up || f.installed != version:
		return job.ErrSilent
	case f.schema != version:
		return errors.New("the database is away")
	case version == next && f.trouble == "never live":
		return fmt.Errorf("%s is degraded", live[0])
	}
	return nil
}

func (f *fakeEffects) Clean(string, host.PackageFile, host.PackageFile) error {
	f.point("clean before")
	f.cleaned = true
	f.point("clean after")
	return nil
}

// bench is a folder with a request, and its runner.
type bench struct {
	*Runner
	fake *fakeEffects
	home home.Home
}

func newBench(t *testing.T, root string, fake *fakeEffects) *bench {
	t.Helper()
	h := home.Home{Root: root}
	folder, err := job.OpenFolder(root, job.Upgrade, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Wish(Wish{job.Wish{ID: "1", At: time.Now()}, next}); err != nil {
		t.Fatal(err)
	}
	return &bench{fake: fake, home: h, Runner: &Runner{
		Folder: folder, Effects: fake, Log: slog.New(slog.DiscardHandler), Waiting: job.Waiting{Patience: 20 * time.Millisecond, Silence: 10 * time.Millisecond, Every: time.Millisecond},
	}}
}

// run runs until the end, or until it is killed.
func (b *bench) run(t *testing.T) (at string) {
	t.Helper()
	defer func() {
		if k, ok := recover().(killed); ok {
			at = k.point
		}
	}()
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ""
}

func (b *bench) last(t *testing.T) Upgrade {
	t.Helper()
	u, err := Job.Last(jobs.New(b.home, nil))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// settled checks that the upgrade has ended as expected, and that the machine matches the record.
func (b *bench) settled(t *testing.T, when string, want job.State) {
	t.Helper()
	u, f := b.last(t), b.fake
	if u.State != want || u.EndedAt.IsZero() || u.From != former || u.To != next || (u.Reason == "") != (want == job.Done) {
		t.Errorf("%s: %s, reason %q, from %q to %q", when, u.State, u.Reason, u.From, u.To)
	}
	for _, s := range u.Steps {
		if s.State == job.StepRunning {
			t.Errorf("%s: the step %s still runs", when, s.Name)
		}
	}
	version, data := former, "precious"
	if want == job.Done {
		version, data = next, "migrated"
	}
	if f.installed != version || f.half || !f.up || f.schema != version || f.data != data {
		t.Errorf("%s: %s but %+v", when, u.State, *f)
	}
	for _, name := range []string{job.Upgrade.WishFile(), "reserve"} {
		if _, err := os.Stat(b.Folder.Path(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %s is left behind", when, name)
		}
	}
}

var outcomes = map[string]job.State{
	"":                   job.Done,
	"no former package":  job.Refused,
	"no space":           job.Refused,
	"installation fails": job.TakenBack,
	"does not start":     job.TakenBack,
	"migration fails":    job.TakenBack,
	"never live":         job.TakenBack,
}

// Whatever is wrong with the new version, and wherever the run is killed, the next start completes it, with the new version or with the
// old one and its data.
func TestKilledAtEveryPoint(t *testing.T) {
	folder := folders(t)
	for trouble, want := range outcomes {
		t.Run("new version: "+trouble, func(t *testing.T) {
			t.Parallel()
			fresh := newBench(t, folder(t), newFake(trouble))
			if at := fresh.run(t); at != "" {
				t.Fatal(at)
			}
			fresh.settled(t, "not killed", want)
			if len(fresh.fake.passed) < 3 {
				t.Fatalf("%v", fresh.fake.passed)
			}
			for point, times := range fresh.fake.passed {
				// A version that is never ready is checked often: the first time is as good as the others.
				if strings.HasPrefix(point, "ready ") {
					times = 1
				}
				for nth := 1; nth <= times; nth++ {
					b := newBench(t, folder(t), newFake(trouble))
					b.fake.killAt, b.fake.nth = point, nth
					if at := b.run(t); at != point {
						t.Fatalf("it was not killed %s, but %q", point, at)
					}
					b.fake.boot()
					if again := b.run(t); again != "" {
						t.Fatal(again)
					}
					b.settled(t, fmt.Sprintf("killed %s, the time %d", point, nth), want)
				}
			}
		})
	}
}

// The same if the start that should complete it is killed as well.
func TestKilledTwice(t *testing.T) {
	folder := folders(t)
	for _, trouble := range []string{"", "no space", "installation fails"} {
		fresh := newBench(t, folder(t), newFake(trouble))
		fresh.run(t)
		for first := range fresh.fake.passed {
			for second := range fresh.fake.passed {
				b := newBench(t, folder(t), newFake(trouble))
				for _, point := range []string{first, second, ""} {
					b.fake.boot()
					b.fake.killAt, b.fake.nth = point, 1
					if b.run(t) == "" && point != "" {
						break // the second start was past that point
					}
				}
				b.settled(t, fmt.Sprintf("%q, killed %s and %s", trouble, first, second), outcomes[trouble])
			}
		}
	}
}

// An installation that crashes the machine each time is not retried forever, and the reversal survives such crashes, too.
func TestInterruptedAgainAndAgain(t *testing.T) {
	b := newBench(t, t.TempDir(), newFake(""))
	for range 60 {
		b.fake.boot()
		b.fake.during = func(effect string) {
			if effect == "install" || effect == "restore" && len(b.last(t).Steps) < 40 {
				panic(killed{effect})
			}
		}
		if b.run(t) == "" {
			break
		}
	}
	b.settled(t, "interrupted", job.TakenBack)
	if u := b.last(t); !strings.Contains(u.Reason, "interrupted 3 times") || len(u.Steps) > 40 || !slices.ContainsFunc(u.Steps, func(s job.Step) bool { return s.State == job.StepInterrupted }) {
		t.Errorf("%q, %d steps", u.Reason, len(u.Steps))
	}
}

// A version that does not even answer is reverted sooner than one that is not ready; one that has answered is not.
func TestSilence(t *testing.T) {
	b := newBench(t, t.TempDir(), newFake("does not start"))
	b.Patience = time.Hour
	b.run(t)
	b.settled(t, "silent", job.TakenBack)
	if u := b.last(t); !strings.Contains(u.Reason, "did not start within") {
		t.Error(u.Reason)
	}
	b = newBench(t, t.TempDir(), newFake("never live"))
	b.Silence = 0
	b.run(t)
	b.settled(t, "not live", job.TakenBack)
	if u := b.last(t); !strings.Contains(u.Reason, "did not work within") {
		t.Error(u.Reason)
	}
}

// A run that is asked to stop leaves the request, and the next one continues.
func TestStopped(t *testing.T) {
	b := newBench(t, t.TempDir(), newFake(""))
	ctx, stop := context.WithCancel(t.Context())
	b.fake.during = func(effect string) {
		if effect == "install" {
			stop()
		}
	}
	if err := b.Run(ctx); !errors.Is(err, context.Canceled) || b.last(t).State != job.Running {
		t.Fatal(err, b.last(t).State)
	}
	b.fake.during = nil
	left := b.Folder.Path(".upgrade.json4711") // of a write that was killed
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.run(t)
	b.settled(t, "stopped", job.Done)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what was left is still there")
	}
	// Without a request nothing is done.
	clear(b.fake.passed)
	if b.run(t); len(b.fake.passed) != 0 {
		t.Error("something was done without a wish")
	}
}

// If the reversal fails as well, the record has both reasons, and nothing that would help is deleted.
func TestNoWayBack(t *testing.T) {
	b := newBench(t, t.TempDir(), newFake("no way back"))
	b.fake.during = func(effect string) {
		if effect == "install" {
			b.fake.trouble = "installation fails"
		}
		if effect == "reinstall" {
			b.fake.trouble = "no way back"
		}
	}
	b.run(t)
	u := b.last(t)
	if u.State != job.Stuck || !strings.Contains(u.Reason, "status 1") || !strings.Contains(u.Reason, "status 2") {
		t.Errorf("%s %q", u.State, u.Reason)
	}
}

// The output of a step's programs is stored, truncated, and without the passwords of repositories.
func TestOutputOfSteps(t *testing.T) {
	b := newBench(t, t.TempDir(), newFake(""))
	b.run(t)
	steps := b.last(t).Steps
	i := slices.IndexFunc(steps, func(s job.Step) bool { return s.Name == stepInstall })
	if got := steps[i].Output; got != "unpacking http://…example.net/pool\n" {
		t.Errorf("%q", got)
	}
}

// A disk that fills up during the installation does not prevent the reversal, and the record reports it.
func TestFullDisk(t *testing.T) {
	root := inMemory(t, "1m")
	b := newBench(t, root, newFake("installation fails"))
	b.fake.during = func(effect string) {
		switch effect {
		case "verify":
			if err := b.Folder.Reserve(256 << 10); err != nil {
				t.Error(err)
			}
		case "install":
			fill(t, filepath.Join(root, "filler"))
		}
	}
	b.run(t)
	b.settled(t, "full disk", job.TakenBack)
	if err := b.Folder.Reserve(8 << 20); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("what is not there was set aside: %v", err)
	}
}

// folders creates folders in memory, because thousands of writes must be synced, which is slow on a busy disk.
func folders(t *testing.T) func(t *testing.T) string {
	t.Helper()
	memory := inMemory(t, "64m")
	return func(t *testing.T) string {
		t.Helper()
		path, err := os.MkdirTemp(memory, "")
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// inMemory mounts a separate file system of a given size.
func inMemory(t *testing.T, size string) string {
	t.Helper()
	path := t.TempDir()
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return path
}

// fill uses up the rest of a file system.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{4096, 1} {
		for {
			if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An invalid version is not installed, whoever has written the request: nothing is done, and the request is removed.
func TestWishesThatAreRefused(t *testing.T) {
	machine := hosttest.New()
	for _, version := range []string{"", "-o", "--purge", "1.0 x", "../1", "1.0;id", "a", "1\n", "1" + strings.Repeat("0", 80)} {
		if err := Job.Begin(t.Context(), machine, Wish{Version: version}, ""); err == nil {
			t.Errorf("%q is a version", version)
		}
		b := newBench(t, t.TempDir(), newFake(""))
		if err := b.Folder.Save(job.Upgrade.WishFile(), Wish{job.Wish{ID: "1", At: time.Now()}, version}); err != nil {
			t.Fatal(err)
		}
		if err := b.Run(t.Context()); err == nil || len(b.fake.passed) != 0 {
			t.Errorf("%q: %v, %v", version, err, b.fake.passed)
		}
		if _, err := job.Upgrade.Wish(jobs.New(b.home, nil)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: the wish is left: %v", version, err)
		}
	}
	if _, err := Job.Last(machine); !errors.Is(err, fs.ErrNotExist) {
		t.Error("something was begun", err)
	}
}
