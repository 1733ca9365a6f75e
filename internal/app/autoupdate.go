package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/setup"
	"edge.internal/gateway/internal/upgrade"
)

const (
	// refreshWithin is how long a refresh of apt's lists may take, and refreshEvery the polling interval.
	refreshWithin = 6 * time.Minute
	refreshEvery  = time.Second
)

// autoUpdate upgrades the gateway to the available version, if the operator has turned that on. A version that was taken back is
// not tried again, but the next one is.
func autoUpdate(ctx context.Context, k *kit.Kit, store *setup.Store) error {
	if !store.View().AutoUpdate {
		return nil
	}
	versions, err := refreshed(ctx, k)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(versions.Packages, func(p upgrade.Package) bool { return p.Name == host.GatewayPackage })
	if i < 0 || !versions.Packages[i].Upgradable {
		return nil
	}
	to := versions.Packages[i].Available
	last, err := control.Get[upgrade.Upgrade](ctx, k.Paths, "/system/upgrade")
	if err != nil {
		return err
	}
	if last.To == to && (last.State == string(job.TakenBack) || last.State == string(job.Stuck)) {
		k.Log.Warn("an upgrade that failed before is not tried again", "version", to, "state", last.State)
		return nil
	}
	switch is, err := cluster.Load(ctx, k.DB); {
	case err != nil:
		return err
	case is.Role == cluster.Primary:
		nodes, err := cluster.Members(ctx, k.DB)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(nodes, func(m cluster.Member) bool { return !m.Expected() && m.ID != is.PrimaryID }) {
			return rollAtNight(ctx, k, to)
		}
	case is.Role != cluster.Single:
		return nil // the primary updates it
	}
	body, err := json.Marshal(upgrade.Wish{Version: to})
	if err != nil {
		return err
	}
	_, err = control.Ask[upgrade.Upgrade](ctx, k.Paths, http.MethodPost, "/system/upgrade", body)
	return err
}

// rollAtNight updates all nodes, unless that has failed with this version before.
func rollAtNight(ctx context.Context, k *kit.Kit, to string) error {
	last, err := control.Get[cluster.RollingUpdate](ctx, k.Paths, "/cluster/rolling-update")
	if err != nil {
		return err
	}
	if last.To == to && last.Phase == cluster.UpdateFailed {
		k.Log.Warn("a rolling update that failed before is not tried again", "version", to, "node", last.Node)
		return nil
	}
	_, err = control.Ask[cluster.RollingUpdate](ctx, k.Paths, http.MethodPost, "/cluster/rolling-update", nil)
	return err
}

// refreshed has apt fetch its lists, and returns their contents.
func refreshed(ctx context.Context, k *kit.Kit) (upgrade.Versions, error) {
	began := time.Now()
	if _, err := control.Ask[upgrade.Versions](ctx, k.Paths, http.MethodPost, "/system/package-versions/refresh", nil); err != nil {
		return upgrade.Versions{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, refreshWithin)
	defer cancel()
	for seen := false; ; {
		versions, err := control.Get[upgrade.Versions](ctx, k.Paths, "/system/package-versions")
		if err != nil {
			return versions, err
		}
		fresh := versions.RefreshedAt != nil && versions.RefreshedAt.After(began)
		if !versions.Refreshing && versions.Error == "" && (fresh || seen) {
			return versions, nil
		}
		seen = seen || versions.Refreshing
		select {
		case <-ctx.Done():
			return versions, fmt.Errorf("apt did not fetch its lists: %s", versions.RefreshErr)
		case <-time.After(refreshEvery):
		}
	}
}
