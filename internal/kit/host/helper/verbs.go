package helper

import (
	"context"
	"net/netip"
	"os"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/parts"
)

// with are the verbs that need one of some privileges.
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
	// served are the verbs that the helper does.
	served = with(daemon.Served, daemon.Repeatable)
	// repeatable are those of them that may be done twice.
	repeatable = with(daemon.Repeatable)
	// local are the verbs that the program that wants them does itself.
	local = with(daemon.Local)
	// probes is what is served apart from the helper, by a process that is not root.
	probes = with(daemon.Probed)
)

func (c *Client) Read(p host.Place) ([]byte, error) {
	return ask[[]byte](context.Background(), c, "Read", p)
}

func (c *Client) Differing(want []host.Digest) ([]host.Place, error) {
	return ask[[]host.Place](context.Background(), c, "Differing", want)
}

func (c *Client) Install(p host.Place, content []byte) error {
	return c.do(context.Background(), "Install", p, content)
}

func (c *Client) Amend(p host.Place, change parts.Change) error {
	return c.do(context.Background(), "Amend", p, change)
}

func (c *Client) Remove(p host.Place) error { return c.do(context.Background(), "Remove", p) }

func (c *Client) Sweep() error { return c.do(context.Background(), "Sweep") }

func (c *Client) ReadLog(l host.Log, most int64) ([]byte, error) {
	return ask[[]byte](context.Background(), c, "ReadLog", l, most)
}

func (c *Client) ReadLogBefore(l host.Log, at host.LogPlace, most int64) (host.LogPiece, error) {
	return ask[host.LogPiece](context.Background(), c, "ReadLogBefore", l, at, most)
}

func (c *Client) SearchJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry, host.JournalPlace)) error {
	return daemon.Until(ctx, c.exchange(ctx, "SearchJournal", []any{q}, func(in *cbor.Decoder) error {
		var batch []host.JournalEntry
		var at host.JournalPlace
		if err := in.Decode(&batch); err != nil {
			return err
		}
		if err := in.Decode(&at); err != nil {
			return err
		}
		sink(batch, at)
		return nil
	}))
}

func (c *Client) FollowJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry)) error {
	return daemon.Until(ctx, c.exchange(ctx, "FollowJournal", []any{q}, func(in *cbor.Decoder) error {
		var batch []host.JournalEntry
		if err := in.Decode(&batch); err != nil {
			return err
		}
		sink(batch)
		return nil
	}))
}

func (c *Client) TrimLog(l host.Log) error { return c.do(context.Background(), "TrimLog", l) }

func (c *Client) Run(ctx context.Context, cmd host.Command, in host.Input) (host.Output, error) {
	return ask[host.Output](ctx, c, "Run", cmd, in)
}

func (c *Client) Start(ctx context.Context, u host.Unit) error   { return c.do(ctx, "Start", u) }
func (c *Client) Stop(ctx context.Context, u host.Unit) error    { return c.do(ctx, "Stop", u) }
func (c *Client) Restart(ctx context.Context, u host.Unit) error { return c.do(ctx, "Restart", u) }
func (c *Client) Reload(ctx context.Context, u host.Unit) error  { return c.do(ctx, "Reload", u) }
func (c *Client) Enable(ctx context.Context, u host.Unit, on bool) error {
	return c.do(ctx, "Enable", u, on)
}

func (c *Client) LinkKinds(ctx context.Context) ([]string, error) {
	return ask[[]string](ctx, c, "LinkKinds")
}

func (c *Client) CreateLink(ctx context.Context, l host.NewLink) error {
	return c.do(ctx, "CreateLink", l)
}

func (c *Client) ChangeLink(ctx context.Context, name string, change host.LinkChange) error {
	return c.do(ctx, "ChangeLink", name, change)
}

func (c *Client) RemoveLink(ctx context.Context, name string) error {
	return c.do(ctx, "RemoveLink", name)
}

func (c *Client) SetAddress(ctx context.Context, link string, a host.NewAddr) error {
	return c.do(ctx, "SetAddress", link, a)
}

func (c *Client) RemoveAddress(ctx context.Context, link string, a netip.Prefix) error {
	return c.do(ctx, "RemoveAddress", link, a)
}

func (c *Client) AddRoute(ctx context.Context, r host.NewRoute) error {
	return c.do(ctx, "AddRoute", r)
}

func (c *Client) ReplaceRoute(ctx context.Context, r host.NewRoute) error {
	return c.do(ctx, "ReplaceRoute", r)
}

func (c *Client) RemoveRoute(ctx context.Context, r host.NewRoute) error {
	return c.do(ctx, "RemoveRoute", r)
}

func (c *Client) AddRule(ctx context.Context, r host.Rule) error { return c.do(ctx, "AddRule", r) }

func (c *Client) RemoveRule(ctx context.Context, r host.Rule) error {
	return c.do(ctx, "RemoveRule", r)
}

func (c *Client) Forward(ctx context.Context, on bool) error { return c.do(ctx, "Forward", on) }

func (c *Client) AcceptRouters(ctx context.Context, link string) error {
	return c.do(ctx, "AcceptRouters", link)
}

func (c *Client) PortUsers(port int) ([]host.PortUser, error) {
	return ask[[]host.PortUser](context.Background(), c, "PortUsers", port)
}

func (c *Client) Listen(ctx context.Context, network, address string) (*os.File, error) {
	return ask[*os.File](ctx, c, "Listen", network, address)
}

func (c *Client) Deafen(ctx context.Context, listener *os.File) error {
	return c.do(ctx, "Deafen", listener)
}

func (c *Client) FilterState(ctx context.Context) (host.FilterState, error) {
	return ask[host.FilterState](ctx, c, "FilterState")
}

func (c *Client) FilterDigest(ctx context.Context) (string, error) {
	return ask[string](ctx, c, "FilterDigest")
}

func (c *Client) FilterDigestOf(ctx context.Context, f host.File) (string, error) {
	return ask[string](ctx, c, "FilterDigestOf", f)
}

func (c *Client) FilterChanges(ctx context.Context, changed func()) error {
	return daemon.Until(ctx, c.exchange(ctx, "FilterChanges", nil, func(*cbor.Decoder) error {
		changed()
		return nil
	}))
}

func (c *Client) FilterCounters(ctx context.Context) (host.FilterCounters, error) {
	return ask[host.FilterCounters](ctx, c, "FilterCounters")
}

func (c *Client) FilterLoad(ctx context.Context, f host.File) (uint32, error) {
	return ask[uint32](ctx, c, "FilterLoad", f)
}

func (c *Client) FilterChange(ctx context.Context, change nft.Change) ([]host.FilterCounter, error) {
	return ask[[]host.FilterCounter](ctx, c, "FilterChange", change)
}

func (c *Client) PacketLog(ctx context.Context, sink func(batch []host.LoggedPacket, lost uint64)) error {
	var batch []host.LoggedPacket
	var lost uint64
	return daemon.Until(ctx, c.exchange(ctx, "PacketLog", nil, func(in *cbor.Decoder) error {
		batch = batch[:0]
		if err := in.Decode(&batch); err != nil {
			return err
		}
		if err := in.Decode(&lost); err != nil {
			return err
		}
		sink(batch, lost)
		return nil
	}))
}

func (c *Client) TunnelDevices(ctx context.Context) ([]host.TunnelDevice, error) {
	return ask[[]host.TunnelDevice](ctx, c, "TunnelDevices")
}

func (c *Client) CreateTunnel(ctx context.Context, name, alias string) error {
	return c.do(ctx, "CreateTunnel", name, alias)
}

func (c *Client) ChangeTunnel(ctx context.Context, name string, change host.TunnelChange) error {
	return c.do(ctx, "ChangeTunnel", name, change)
}

func (c *Client) RemoveTunnel(ctx context.Context, name string) error {
	return c.do(ctx, "RemoveTunnel", name)
}

func (c *Client) TunnelFiles(ctx context.Context) ([]host.TunnelFile, error) {
	return ask[[]host.TunnelFile](ctx, c, "TunnelFiles")
}

func (c *Client) RefreshPackages(ctx context.Context) error { return c.do(ctx, "RefreshPackages") }

func (c *Client) Connections(ctx context.Context, q host.ConnectionQuery) (host.ConnectionPage, error) {
	return ask[host.ConnectionPage](ctx, c, "Connections", q)
}

func (c *Client) Traffic(ctx context.Context, of []netip.Addr) (host.Traffic, error) {
	return ask[host.Traffic](ctx, c, "Traffic", of)
}

func (c *Client) EndConnection(ctx context.Context, k host.ConnectionKey) error {
	return c.do(ctx, "EndConnection", k)
}

func (c *Client) Probe(ctx context.Context, p host.Probe, sink func(output []byte)) (end host.ProbeEnd, err error) {
	var output []byte
	err = c.probes.exchange(ctx, "Probe", []any{p}, func(in *cbor.Decoder) error {
		output = output[:0]
		if err := in.Decode(&output); err != nil {
			return err
		}
		sink(output)
		return nil
	}, &end)
	return end, err
}

func (c *Client) BeginJob(ctx context.Context, n job.Name, wish []byte, passphrase string) error {
	return c.do(ctx, "BeginJob", n, wish, passphrase)
}

func (c *Client) EndJob(ctx context.Context, n job.Name, id string) error {
	return c.do(ctx, "EndJob", n, id)
}
