// Package packages reads the versions of packages from apt, and refreshes apt's lists.
package packages

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/job"
)

// Packages queries apt. It keeps the last answer.
type Packages struct {
	home  home.Home
	units jobs.Starter
	// ask runs apt-cache.
	ask func(ctx context.Context) (string, error)

	mu     sync.Mutex
	latest *query // the running or the last one; under mu
}

// query is one run of apt-cache. Its list and err are set when done is closed.
type query struct {
	stamp string // state of apt's files when it began
	at    time.Time
	done  chan struct{}
	list  []host.PackageVersion
	err   error
}

// New accepts nil units; then lists cannot be refreshed.
func New(h home.Home, units jobs.Starter) *Packages {
	return &Packages{home: h, units: units, ask: policy}
}

// askWithin is generous because apt first builds its index if it cannot cache one.
const askWithin = 30 * time.Second

func policy(ctx context.Context) (string, error) {
	out, err := command.Exec(ctx, append([]string{"/usr/bin/apt-cache", "policy", "--"}, host.PackageNames()...), askWithin)
	if err == nil && out.ExitCode != 0 {
		err = fmt.Errorf("apt-cache: %s", host.FirstLines(out.Stderr))
	}
	return out.Stdout, err
}

const (
	aptLists = "/var/lib/apt/lists"
	// fresh is how long an answer of apt is reused while its lists do not change. A package that was installed is noticed this soon.
	fresh = time.Minute
)

// PackageVersions returns the versions of all packages of the closed list. An answer that comes after ctx has ended is kept for the next
// call.
func (p *Packages) PackageVersions(ctx context.Context) (host.PackageVersions, error) {
	a := p.query()
	select {
	case <-ctx.Done():
		return host.PackageVersions{}, context.Cause(ctx)
	case <-a.done:
	}
	return host.PackageVersions{Packages: a.list, Lists: p.lists()}, a.err
}

func (p *Packages) query() *query {
	stamp := stampOf(aptLists) + stampOf(p.home.Path(host.ListsFile))
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.latest; a != nil {
		select {
		case <-a.done:
			if a.stamp == stamp && a.err == nil && time.Since(a.at) < fresh {
				return a
			}
		default:
			return a
		}
	}
	a := &query{stamp: stamp, at: time.Now(), done: make(chan struct{})}
	p.latest = a
	go func() {
		defer close(a.done)
		text, err := p.ask(context.Background())
		if err != nil {
			a.err = err
			return
		}
		a.list = parsePolicy(text, host.PackageNames())
	}()
	return a
}

func stampOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "-;"
	}
	return fmt.Sprintf("%d %d;", info.ModTime().UnixNano(), info.Size())
}

// lists returns the age of apt's lists. A refresh by another program counts, too.
func (p *Packages) lists() host.PackageLists {
	var l host.PackageLists
	var last Refresh
	if err := job.ReadJSON(p.home.Path(host.ListsFile), &last); err == nil {
		l.Refreshing, l.Error = last.EndedAt.IsZero() && time.Since(last.BeganAt) < refreshWithin, last.Error
		if !l.Refreshing && last.EndedAt.IsZero() {
			l.Error = "The last refresh was interrupted."
		}
		if last.Error == "" {
			l.RefreshedAt = last.EndedAt
		}
	}
	if info, err := os.Stat(aptLists); err == nil && info.ModTime().After(l.RefreshedAt) {
		l.RefreshedAt = info.ModTime()
	}
	return l
}

func (p *Packages) RefreshPackages(ctx context.Context) error {
	if err := p.packaged(); err != nil {
		return err
	}
	return p.units.Begin(ctx, job.Refresh)
}

// packaged fails unless the gateway was installed from a package.
func (p *Packages) packaged() error {
	if p.units == nil || p.home.Foreign {
		return fmt.Errorf("the gateway was not installed from a package here, so it cannot replace itself: %w", host.ErrNotInstalled)
	}
	return nil
}
