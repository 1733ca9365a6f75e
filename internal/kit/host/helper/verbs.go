package helper

import (
	"context"
	"net/netip"
	"os"
	"slices"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/parts"
)

// with returns the verbs that have one of these privileges.
func with(some ...daemon.Privilege) map[string]bool {
	verbs := map[string]bool{}
	for name, privilege := range host.Verbs {
		if slices.Contains(some, privilege) {
			verbs[name] = true
		}
	}
	return verbs
}

var (
	// served verbs are executed by the helper.
	served = with(daemon.Served, daemon.Repeatable)
	// repeatable verbs are those of them that may run twice.
	repeatable = with(daemon.Repeatable)
	// local verbs are executed by the calling program.
	local = with(daemon.Local)
	// probes are executed by a separate process without root.
	probes = with(daemon.Probed)
)

func (c *Client) Read(p host.Place) ([]byte, error) {
	return daemon.Ask[[]byte](context.Background(), c, "Read", p)
}

func (c *Client) Differing(want []host.Digest) ([]host.Place, error) {
	return daemon.Ask[[]host.Place](context.Background(), c, "Differing", want)
}

func (c *Client) Install(p host.Place, content []byte) error {
	return daemon.Do(context.Background(), c, "Install", p, content)
}

func (c *Client) Amend(p host.Place, change parts.Change) error {
	return daemon.Do(context.Background(), c, "Amend", p, change)
}

func (c *Client) Remove(p host.Place) error { return daemon.Do(context.Background(), c, "Remove", p) }

func (c *Client) Sweep() error { return daemon.Do(context.Background(), c, "Sweep") }

func (c *Client) ReadLog(l host.Log, most int64) ([]byte, error) {
	return daemon.Ask[[]byte](context.Background(), c, "ReadLog", l, most)
}

func (c *Client) ReadLogBefore(l host.Log, at host.LogPlace, most int64) (host.LogPiece, error) {
	return daemon.Ask[host.LogPiece](context.Background(), c, "ReadLogBefore", l, at, most)
}

func (c *Client) SearchJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry, host.JournalPlace)) error {
	return daemon.Until(ctx, c.Ask(ctx, "SearchJournal", []any{q}, func(decode func(any) error) error {
		var batch []host.JournalEntry
		var at host.JournalPlace
		if err := decode(&batch); err != nil {
			return err
		}
		if err := decode(&at); err != nil {
			return err
		}
		sink(batch, at)
		return nil
	}))
}

func (c *Client) FollowJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry)) error {
	return daemon.Until(ctx, c.Ask(ctx, "FollowJournal", []any{q}, func(decode func(any) error) error {
		var batch []host.JournalEntry
		if err := decode(&batch); err != nil {
			return err
		}
		sink(batch)
		return nil
	}))
}

func (c *Client) TrimLog(l host.Log) error { return daemon.Do(context.Background(), c, "TrimLog", l) }

func (c *Client) Run(ctx context.Context, cmd host.Command, in host.Input) (host.Output, error) {
	return daemon.Ask[host.Output](ctx, c, "Run", cmd, in)
}

func (c *Client) Start(ctx context.Context, u host.Unit) error { return daemon.Do(ctx, c, "Start", u) }

func (c *Client) Stop(ctx context.Context, u host.Unit) error { return daemon.Do(ctx, c, "Stop", u) }

func (c *Client) Restart(ctx context.Context, u host.Unit) error {
	return daemon.Do(ctx, c, "Restart", u)
}

func (c *Client) Reload(ctx context.Context, u host.Unit) error {
	return daemon.Do(ctx, c, "Reload", u)
}

func (c *Client) Enable(ctx context.Context, u host.Unit, on bool) error {
	return daemon.Do(ctx, c, "Enable", u, on)
}

func (c *Client) LinkKinds(ctx context.Context) ([]string, error) {
	return daemon.Ask[[]string](ctx, c, "LinkKinds")
}

func (c *Client) CreateLink(ctx context.Context, l host.NewLink) error {
	return daemon.Do(ctx, c, "CreateLink", l)
}

func (c *Client) ChangeLink(ctx context.Context, name string, change host.LinkChange) error {
	return daemon.Do(ctx, c, "ChangeLink", name, change)
}

func (c *Client) RemoveLink(ctx context.Context, name string) error {
	return daemon.Do(ctx, c, "RemoveLink", name)
}

func (c *Client) SetAddress(ctx context.Context, link string, a host.NewAddr) error {
	return daemon.Do(ctx, c, "SetAddress", link, a)
}

func (c *Client) RemoveAddress(ctx context.Context, link string, a netip.Prefix) error {
	return daemon.Do(ctx, c, "RemoveAddress", link, a)
}

func (c *Client) AddRoute(ctx context.Context, r host.NewRoute) error {
	return daemon.Do(ctx, c, "AddRoute", r)
}

func (c *Client) ReplaceRoute(ctx context.Context, r host.NewRoute) error {
	return daemon.Do(ctx, c, "ReplaceRoute", r)
}

func (c *Client) RemoveRoute(ctx context.Context, r host.NewRoute) error {
	return daemon.Do(ctx, c, "RemoveRoute", r)
}

func (c *Client) AddRule(ctx context.Context, r host.Rule) error {
	return daemon.Do(ctx, c, "AddRule", r)
}

func (c *Client) RemoveRule(ctx context.Context, r host.Rule) error {
	return daemon.Do(ctx, c, "RemoveRule", r)
}

func (c *Client) Forward(ctx context.Context, on bool) error { return daemon.Do(ctx, c, "Forward", on) }

func (c *Client) AcceptRouters(ctx context.Context, link string) error {
	return daemon.Do(ctx, c, "AcceptRouters", link)
}

func (c *Client) PortUsers(port int) ([]host.PortUser, error) {
	return daemon.Ask[[]host.PortUser](context.Background(), c, "PortUsers", port)
}

func (c *Client) Listen(ctx context.Context, network, address string) (*os.File, error) {
	return daemon.Ask[*os.File](ctx, c, "Listen", network, address)
}

func (c *Client) DrainListener(ctx context.Context, listener *os.File) error {
	return daemon.Do(ctx, c, "DrainListener", listener)
}

func (c *Client) FilterState(ctx context.Context) (host.FilterState, error) {
	return daemon.Ask[host.FilterState](ctx, c, "FilterState")
}

func (c *Client) FilterDigest(ctx context.Context) (string, error) {
	return daemon.Ask[string](ctx, c, "FilterDigest")
}

func (c *Client) FilterDigestOf(ctx context.Context, f host.File) (string, error) {
	return daemon.Ask[string](ctx, c, "FilterDigestOf", f)
}

func (c *Client) FilterChanges(ctx context.Context, changed func()) error {
	return daemon.Until(ctx, c.Ask(ctx, "FilterChanges", nil, func(func(any) error) error {
		changed()
		return nil
	}))
}

func (c *Client) FilterCounters(ctx context.Context) (host.FilterCounters, error) {
	return daemon.Ask[host.FilterCounters](ctx, c, "FilterCounters")
}

func (c *Client) FilterLoad(ctx context.Context, f host.File) (uint32, error) {
	return daemon.Ask[uint32](ctx, c, "FilterLoad", f)
}

func (c *Client) FilterChange(ctx context.Context, change nft.Change) ([]host.FilterCounter, error) {
	return daemon.Ask[[]host.FilterCounter](ctx, c, "FilterChange", change)
}

func (c *Client) PacketLog(ctx context.Context, sink func(batch []host.LoggedPacket, lost uint64)) error {
	var batch []host.LoggedPacket
	var lost uint64
	return daemon.Until(ctx, c.Ask(ctx, "PacketLog", nil, func(decode func(any) error) error {
		batch = batch[:0]
		if err := decode(&batch); err != nil {
			return err
		}
		if err := decode(&lost); err != nil {
			return err
		}
		sink(batch, lost)
		return nil
	}))
}

func (c *Client) TunnelDevices(ctx context.Context) ([]host.TunnelDevice, error) {
	return daemon.Ask[[]host.TunnelDevice](ctx, c, "TunnelDevices")
}

func (c *Client) CreateTunnel(ctx context.Context, name, alias string) error {
	return daemon.Do(ctx, c, "CreateTunnel", name, alias)
}

func (c *Client) ChangeTunnel(ctx context.Context, name string, change host.TunnelChange) error {
	return daemon.Do(ctx, c, "ChangeTunnel", name, change)
}

func (c *Client) RemoveTunnel(ctx context.Context, name string) error {
	return daemon.Do(ctx, c, "RemoveTunnel", name)
}

func (c *Client) TunnelFiles(ctx context.Context) ([]host.TunnelFile, error) {
	return daemon.Ask[[]host.TunnelFile](ctx, c, "TunnelFiles")
}

func (c *Client) RefreshPackages(ctx context.Context) error {
	return daemon.Do(ctx, c, "RefreshPackages")
}

func (c *Client) Connections(ctx context.Context, q host.ConnectionQuery) (host.ConnectionPage, error) {
	return daemon.Ask[host.ConnectionPage](ctx, c, "Connections", q)
}

func (c *Client) Traffic(ctx context.Context, of []netip.Addr) (host.Traffic, error) {
	return daemon.Ask[host.Traffic](ctx, c, "Traffic", of)
}

func (c *Client) EndConnection(ctx context.Context, k host.ConnectionKey) error {
	return daemon.Do(ctx, c, "EndConnection", k)
}

func (c *Client) Probe(ctx context.Context, p host.Probe, sink func(output []byte)) (end host.ProbeEnd, err error) {
	var output []byte
	err = c.probes.Ask(ctx, "Probe", []any{p}, func(decode func(any) error) error {
		output = output[:0]
		if err := decode(&output); err != nil {
			return err
		}
		sink(output)
		return nil
	}, &end)
	return end, err
}

func (c *Client) BeginJob(ctx context.Context, n job.Name, wish []byte, passphrase string) error {
	return daemon.Do(ctx, c, "BeginJob", n, wish, passphrase)
}

func (c *Client) EndJob(ctx context.Context, n job.Name, id string) error {
	return daemon.Do(ctx, c, "EndJob", n, id)
}
