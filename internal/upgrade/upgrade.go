// Package upgrade reports the versions of the gateway and of its daemons, and upgrades the gateway.
//
// It only requests an upgrade and reports its progress: gateway-upgrade does it, separately from the service that is replaced.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/upgrade/runner"
)

// Room manages upgrades.
type Room struct {
	*kit.Kit
	deps Deps
}

// Deps holds what the room needs from others.
type Deps struct {
	// Clustered reports whether there are other nodes, which are updated before the primary.
	Clustered func(ctx context.Context) (bool, error)
}

func New(k *kit.Kit, d Deps) *Room { return &Room{k, d} }

// Versions lists the versions of the gateway and of its daemons.
type Versions struct {
	Packages    []Package  `json:"packages" doc:"The gateway first, then its daemons."`
	Packaged    bool       `json:"packaged" doc:"Whether the gateway was installed from a package, so that it can upgrade itself."`
	RefreshedAt *time.Time `json:"refreshed_at" doc:"When apt's lists were last fetched."`
	Refreshing  bool       `json:"refreshing" doc:"Whether they are being fetched."`
	RefreshErr  string     `json:"refresh_error" doc:"Why they could not be fetched the last time, for administrators; empty when they could."`
	Error       string     `json:"error" doc:"Why the versions are missing; empty otherwise."`
}

type Package struct {
	Name       string   `json:"name" doc:"Name of the package."`
	Installed  string   `json:"installed" doc:"Installed version; empty if it is not installed. For a gateway that was not installed from a package, the running version."`
	Available  string   `json:"available" doc:"Version that apt would install; empty if none."`
	Newer      []string `json:"newer" doc:"Versions after the installed one, the newest first."`
	Upgradable bool     `json:"upgradable" doc:"Whether the available version is newer than the installed one."`
	Security   bool     `json:"security" doc:"Whether a newer version is a security update."`
}

// Upgrade is the running or the last upgrade.
type Upgrade struct {
	job.View
	State string `json:"state" enum:"none,running,done,refused,taken_back,stuck" doc:"Progress. refused: nothing was changed. taken_back: the previous version was installed again, with its data. stuck: installing the previous version failed as well."`
	From  string `json:"from" doc:"Version that was installed before; empty until it is known."`
	To    string `json:"to" doc:"Version that was asked for."`
	Steps []Step `json:"steps" doc:"Steps in order. A step that was interrupted and repeated is listed again."`
}

type Step struct {
	Name string `json:"name" enum:"fetch,back-up,verify,install,confirm,reinstall,restore,recover" doc:"Step. confirm waits until the new version works; reinstall, restore and recover roll back."`
	job.StepView
}

// Wish is the requested version.
type Wish struct {
	Version string `json:"version" doc:"Version to install; it must be newer than the installed one. By default the available one."`
}

// Mount adds the room's routes. They also answer without the database.
func (r *Room) Mount() {
	const tag httpd.Tag = "system"
	httpd.Handle(r.Router, http.MethodGet, "/system/package-versions", httpd.Read.Offline(), tag.Doc("system.package-versions", "Installed and available versions of the gateway and of its daemons"),
		func(c *httpd.Call, _ struct{}) (Versions, error) { return r.versions(c, c.Actor), nil })
	httpd.Handle(r.Router, http.MethodPost, "/system/package-versions/refresh", httpd.Write.Offline().Here(), tag.Audited("system.package-versions.refresh", "Refresh the package lists of apt. The answer comes when that has started"), r.refresh)
	httpd.Handle(r.Router, http.MethodGet, "/system/upgrade", httpd.Read.Offline(), tag.Doc("system.upgrade.get", "The running or last upgrade of the gateway"),
		func(c *httpd.Call, _ struct{}) (Upgrade, error) { return r.last(c.Actor) })
	httpd.Handle(r.Router, http.MethodPost, "/system/upgrade", httpd.Write.Offline().Here(), tag.Audited("system.upgrade", "Upgrade the gateway. The answer comes when the upgrade has started. If the new version does not work, the previous one is installed again"), r.begin)
}

func (r *Room) versions(ctx context.Context, reader actor.Actor) Versions {
	known, err := host.Ask(ctx, r.Host.PackageVersions)
	if err != nil {
		r.Log.Warn("asking apt for versions", "err", err)
		return Versions{Packages: []Package{}, Error: "The versions cannot be read from apt at the moment. Try again."}
	}
	v := Versions{Packages: make([]Package, len(known.Packages)), Refreshing: known.Lists.Refreshing}
	if !known.Lists.RefreshedAt.IsZero() {
		at := known.Lists.RefreshedAt.UTC()
		v.RefreshedAt = &at
	}
	if reader.Role == actor.Admin {
		v.RefreshErr = known.Lists.Error
	}
	for i, p := range known.Packages {
		v.Packages[i] = Package{
			Name: p.Name, Installed: p.Installed, Available: p.Available, Newer: p.Newer, Security: p.Security,
			Upgradable: slices.Contains(p.Newer, p.Available),
		}
		if p.Name == host.GatewayPackage {
			if v.Packaged = p.Installed != ""; !v.Packaged {
				v.Packages[i].Installed = r.Version
			}
		}
	}
	return v
}

// errNotPackaged refuses what needs a package.
var errNotPackaged = fault.New(fault.NotSupported, "This gateway was not installed from a package, so it cannot upgrade itself.")

// refused explains to the caller why the machine refused.
func refused(err error) error {
	if errors.Is(err, host.ErrNotInstalled) {
		return errNotPackaged
	}
	return job.Upgrade.Conflict(err)
}

func (r *Room) refresh(c *httpd.Call, _ struct{}) (Versions, error) {
	err := r.Audit.Do(c, "system.package-versions.refresh", "apt", func() (any, error) { return nil, refused(r.Host.RefreshPackages(c)) })
	if err != nil {
		return Versions{}, err
	}
	v := r.versions(c, c.Actor)
	v.Refreshing = true // the job may not have recorded it yet
	return v, nil
}

func (r *Room) begin(c *httpd.Call, in struct{ Body *Wish }) (Upgrade, error) {
	version := ""
	if in.Body != nil {
		version = in.Body.Version
	}
	// Without a database this is unknown, and an upgrade may be what helps.
	if clustered, err := r.deps.Clustered(c); err == nil && clustered {
		return Upgrade{}, fault.New(fault.Conflict, "This gateway is a node of a cluster. Start a rolling update on the primary: it updates the standbys first.")
	}
	if err := r.Begin(c, version); err != nil {
		return Upgrade{}, err
	}
	return r.last(c.Actor)
}

// Begin starts an upgrade to a newer version, or to the available one, and does not wait for it.
func (r *Room) Begin(ctx context.Context, version string) error {
	known, err := host.Ask(ctx, r.Host.PackageVersions)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "The versions cannot be read from apt at the moment. Try again.")
	}
	i := slices.IndexFunc(known.Packages, func(p host.PackageVersion) bool { return p.Name == host.GatewayPackage })
	if i < 0 || known.Packages[i].Installed == "" {
		return errNotPackaged
	}
	own := known.Packages[i]
	if version == "" {
		version = own.Available
	} else if !slices.Contains(own.Newer, version) {
		return fault.Field("version", "%s", wanted(own))
	}
	if !slices.Contains(own.Newer, version) {
		return fault.New(fault.Conflict, "The gateway already has the latest version that apt offers, %s. Refresh the package lists to look for a newer one.", own.Installed)
	}
	return r.Audit.Do(ctx, "system.upgrade", version, func() (any, error) {
		return map[string]string{"from": own.Installed, "to": version}, refused(runner.Job.Begin(ctx, r.Host, runner.Wish{Version: version}, ""))
	})
}

// wanted says which versions can be requested.
func wanted(own host.PackageVersion) string {
	if len(own.Newer) == 0 {
		return fmt.Sprintf("must be newer than the installed version %s, and apt offers no newer one. Refresh the package lists first", own.Installed)
	}
	return fmt.Sprintf("must be newer than the installed version %s and available from apt: %s", own.Installed, strings.Join(own.Newer, ", "))
}

// last returns the running or the last upgrade, as the reader may see it: the output of programs is for administrators.
func (r *Room) last(reader actor.Actor) (Upgrade, error) {
	last, err := runner.Job.Last(r.Host)
	if errors.Is(err, fs.ErrNotExist) {
		return Upgrade{State: "none", View: job.View{Summary: "The gateway has not been upgraded yet."}, Steps: []Step{}}, nil
	}
	if err != nil {
		return Upgrade{}, fmt.Errorf("reading the last upgrade: %w", err)
	}
	all := reader.Role == actor.Admin
	return Upgrade{
		View: last.View(summary(last), all), State: string(last.State), From: last.From, To: last.To,
		Steps: job.Views(last.Record, all, func(name string, v job.StepView) Step { return Step{name, v} }),
	}, nil
}

func summary(u runner.Upgrade) string {
	switch u.State {
	case job.Running:
		return fmt.Sprintf("The gateway is being upgraded to version %s.", u.To)
	case job.Done:
		return fmt.Sprintf("The gateway was upgraded from version %s to %s.", u.From, u.To)
	case job.Refused:
		return fmt.Sprintf("The upgrade to version %s did not start. Nothing was changed.", u.To)
	case job.TakenBack:
		return fmt.Sprintf("Version %s did not work here. Version %s is installed again, with its data.", u.To, u.From)
	}
	return fmt.Sprintf("The upgrade to version %s failed, and so did the return to version %s. See the log of the upgrade.", u.To, u.From)
}
