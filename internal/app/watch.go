package app

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/alert"
	"edge.internal/gateway/internal/certificate"
	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/license"
	"edge.internal/gateway/internal/ntp"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/system"
	"edge.internal/gateway/internal/tunnel"
	"edge.internal/gateway/internal/waf"
)

// sources lend the watcher what gateway-api knows.
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
		Nodes:      func(ctx context.Context) (alert.Cluster, error) { return nodes(ctx, k) },
	}
}

// get reads from gateway-api.
func get[T any](ctx context.Context, k *kit.Kit, path string) (T, error) {
	return control.Get[T](ctx, k.Paths, path)
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
	devices, err := get[[]tunnel.Device](ctx, k, "/tunnel/devices")
	if err != nil {
		return nil, err
	}
	elsewhere := map[string]bool{}
	for _, d := range devices {
		elsewhere[d.Name] = d.Elsewhere
	}
	var list []alert.Tunnel
	for i := range rows {
		x := &rows[i]
		if x.Mode != "client" || !x.Active || elsewhere[x.Name.String()] {
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

// nodes are the other ones that have joined.
func nodes(ctx context.Context, k *kit.Kit) (alert.Cluster, error) {
	s, err := get[cluster.ClusterStatus](ctx, k, "/cluster/status")
	out := alert.Cluster{Split: s.Health == "split-brain"}
	for _, n := range s.Peers {
		if n.Status == cluster.Pending || n.Status == cluster.Joining || n.Status == cluster.Unknown {
			continue
		}
		x := alert.Node{ID: n.ID, Name: n.FQDN, Online: n.Status == cluster.Online, Standby: n.Role == cluster.Standby, Streaming: n.Streaming || n.Error != "", Drift: n.Drift, Lost: n.SlotLost, Refused: n.Repair != nil && n.Repair.TooMuch()}
		if n.Lag != nil {
			x.Lag = time.Duration(*n.Lag * float64(time.Second))
		}
		out.Nodes = append(out.Nodes, x)
	}
	return out, err
}

func inspection(ctx context.Context, k *kit.Kit) (alert.Inspection, error) {
	rows, err := get[[]waf.Config](ctx, k, "/waf/configs")
	if err != nil {
		return alert.Inspection{}, err
	}
	agent, err := get[waf.Agent](ctx, k, "/waf/status")
	if err != nil {
		return alert.Inspection{}, err
	}
	x := alert.Inspection{Up: agent.State == "up", Reason: strings.TrimSpace(agent.Reason)}
	for i := range rows {
		switch c := &rows[i]; {
		case !c.Enabled:
		case c.Mode == "blocking":
			x.Blocking++
		default:
			x.Detecting++
		}
	}
	records, err := get[[]waf.Alert](ctx, k, "/waf/alerts?"+url.Values{
		"action": {"unavailable"}, "limit": {"1000"}, "since": {k.Clock.Now().Add(-time.Minute).UTC().Format(time.RFC3339)},
	}.Encode())
	x.Missed = missed(records)
	return x, err
}

// missed adds up records of requests that were not inspected, which come newest first, by domain.
func missed(records []waf.Alert) (list []alert.Missed) {
	for _, a := range records {
		if a.DomainID == nil {
			continue
		}
		said := map[string]string{}
		for _, d := range a.Data {
			said[d.Variable] = d.Value
		}
		requests, _ := strconv.Atoi(said["requests"])
		refused, _ := strconv.Atoi(said["refused"])
		i := slices.IndexFunc(list, func(m alert.Missed) bool { return m.ID == a.DomainID.String() })
		if i < 0 {
			i = len(list)
			list = append(list, alert.Missed{ID: a.DomainID.String(), Name: a.Domain, Reason: said["reason"], LastSeen: a.CreatedAt})
		}
		list[i].Passed += requests - refused
		list[i].Refused += refused
		list[i].FirstSeen = a.CreatedAt
	}
	return list
}
