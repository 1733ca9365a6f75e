package app

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/alert"
	"edge.internal/gateway/internal/certificate"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/license"
	"edge.internal/gateway/internal/ntp"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/system"
	"edge.internal/gateway/internal/tunnel"
	"edge.internal/gateway/internal/waf"
)

// sources lend the watcher what gateway-api knows. There is no cluster to ask.
func sources(k *kit.Kit) alert.Sources {
	return alert.Sources{
		Load:         func(ctx context.Context) (alert.Load, error) { return load(ctx, k) },
		Certificates: func(ctx context.Context) ([]alert.Certificate, error) { return shownCertificates(ctx, k) },
		Backends:     func(ctx context.Context) ([]alert.Backend, error) { return backends(ctx, k) },
		Tunnels:      func(ctx context.Context) ([]alert.Tunnel, error) { return clientTunnels(ctx, k) },
		Clock:        func(ctx context.Context) (alert.Clock, error) { return clockState(ctx, k) },
		License: func(ctx context.Context) (alert.License, error) {
			x, err := get[license.Record](ctx, k, "/license")
			return alert.License{Invalid: x.Status == license.Invalid, Reason: x.Reason}, err
		},
		Components: func(ctx context.Context) ([]alert.Component, error) { return components(ctx, k) },
		Inspection: func(ctx context.Context) (alert.Inspection, error) { return inspection(ctx, k) },
	}
}

// get reads from gateway-api.
func get[T any](ctx context.Context, k *kit.Kit, path string) (T, error) {
	return askAPI[T](ctx, k.Paths, http.MethodGet, path, nil)
}

func load(ctx context.Context, k *kit.Kit) (alert.Load, error) {
	x, err := get[system.Resources](ctx, k, "/system/resources")
	if err == nil && x.Error != "" {
		err = errors.New(x.Error)
	}
	return alert.Load{
		MemoryTotal: x.MemoryTotal, MemoryAvailable: x.MemoryAvailable, DiskTotal: x.DiskTotal, DiskFree: x.DiskFree,
		ConntrackCount: x.ConntrackCount, ConntrackMax: x.ConntrackMax, Uptime: time.Duration(x.UptimeSeconds) * time.Second,
	}, err
}

// shownCertificates are those that are issued: an order that is not carries a certificate of the gateway's own meanwhile.
func shownCertificates(ctx context.Context, k *kit.Kit) ([]alert.Certificate, error) {
	rows, err := get[[]certificate.Certificate](ctx, k, "/certificates")
	var list []alert.Certificate
	for i := range rows {
		c := &rows[i]
		if c.NotBefore != nil && c.ExpiresAt != nil && slices.Contains([]string{"valid", "expiring", "expired"}, c.Status) {
			list = append(list, alert.Certificate{ID: c.ID.String(), Name: c.Label(), NotBefore: *c.NotBefore, NotAfter: *c.ExpiresAt, Renewed: c.Source != "uploaded"})
		}
	}
	return list, err
}

func backends(ctx context.Context, k *kit.Kit) ([]alert.Backend, error) {
	rows, err := get[[]proxy.Backend](ctx, k, "/backends")
	if err != nil {
		return nil, err
	}
	stats, err := get[proxy.Stats](ctx, k, "/proxy/stats")
	if err == nil && stats.Error != "" {
		err = errors.New("the reverse proxy does not tell how its servers are: " + stats.Error)
	}
	if err != nil {
		return nil, err
	}
	var list []alert.Backend
	for i := range rows {
		b := alert.Backend{ID: rows[i].ID.String(), Name: rows[i].Name.String()}
		for _, s := range stats.Backends {
			if s.BackendID == b.ID && s.Server != "BACKEND" {
				b.Servers = append(b.Servers, s.Status)
			}
		}
		list = append(list, b)
	}
	return list, nil
}

func clientTunnels(ctx context.Context, k *kit.Kit) ([]alert.Tunnel, error) {
	rows, err := get[[]tunnel.Interface](ctx, k, "/tunnel/interfaces")
	if err != nil {
		return nil, err
	}
	status, err := get[map[string]tunnel.PeerStatus](ctx, k, "/tunnel/status")
	if err != nil {
		return nil, err
	}
	var list []alert.Tunnel
	for i := range rows {
		x := &rows[i]
		if x.Mode != "client" || !x.Active {
			continue
		}
		t := alert.Tunnel{ID: x.ID.String(), Name: x.Name.String(), Since: x.UpdatedAt}
		if s, there := status[x.UpstreamPublicKey.String()]; there && s.Interface == t.Name {
			if s.Error != "" {
				return nil, errors.New(s.Error)
			}
			t.LastHandshake = s.LastHandshake
		}
		list = append(list, t)
	}
	return list, nil
}

func clockState(ctx context.Context, k *kit.Kit) (alert.Clock, error) {
	x, err := get[ntp.Status](ctx, k, "/ntp/status")
	if err == nil && x.Error != "" {
		err = errors.New("the time daemon does not answer: " + x.Error)
	}
	if err != nil {
		return alert.Clock{}, err
	}
	machine, err := load(ctx, k)
	return alert.Clock{Stratum: x.Stratum, ReferenceID: x.ReferenceID, Uptime: machine.Uptime}, err
}

func components(ctx context.Context, k *kit.Kit) ([]alert.Component, error) {
	rows, err := get[[]apply.Status](ctx, k, "/system/components")
	list := make([]alert.Component, len(rows))
	for i, x := range rows {
		list[i] = alert.Component{Name: string(x.Name), Degraded: x.State == apply.Degraded, Error: x.LastError, Down: x.Daemon == apply.Down}
		if x.Name == apply.WAF {
			list[i].Down = false // which has an alert of its own: how bad it is depends on the domains
		}
	}
	return list, err
}

func inspection(ctx context.Context, k *kit.Kit) (alert.Inspection, error) {
	rows, err := get[[]waf.Config](ctx, k, "/waf/configs")
	if err != nil {
		return alert.Inspection{}, err
	}
	agent, err := get[waf.Agent](ctx, k, "/waf/status")
	x := alert.Inspection{Up: agent.State != "down", Reason: strings.TrimSpace(agent.Reason)}
	for i := range rows {
		switch c := &rows[i]; {
		case !c.Enabled:
		case c.Mode == "blocking":
			x.Blocking++
		default:
			x.Detecting++
		}
	}
	return x, err
}
