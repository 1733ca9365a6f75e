package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/lab"
)

const (
	// tunnelOurs is the gateway's interface, tunnelBare the one that the bare side changes, and tunnelDevice that of the peer which
	// communicates in the meantime. WireGuard implementations in user space share one folder across all sides.
	tunnelOurs, tunnelBare, tunnelDevice = "gwtun0", "gwbare0", "gwdev0"
	tunnelHere, tunnelThere              = "10.88.0.1", "10.88.0.2"
	// tunnelRounds is how often both sizes are measured, in turns.
	tunnelRounds = 5
	// tunnelChanges is the number of peers that are added, changed and removed on each side in a round. The first prepare their statements and are not
	// measured.
	tunnelChanges, tunnelFirst = 100, 5
	// tunnelPause is between two packets of the peer that talks.
	tunnelPause = 2 * time.Millisecond
)

// tunnelBench is a lab with a tunnel, a peer on the wan side that communicates, and an agent that changes a tunnel of the same kind and
// size without the gateway. The gateway ignores that one, because it did not create it. The rows of its peers belong to an
// inactive interface, so that the gateway and the tunnels remain consistent.
type tunnelBench struct {
	*bench
	agent        *agent
	ours, theirs uuid.UUID
	talker       uuid.UUID
}

// measureTunnel compares adding a peer, until it is live, with its commit and the bare update of one peer.
func measureTunnel(ctx context.Context, s settings) (goals []goal, err error) {
	fmt.Println("a lab, with WireGuard")
	r, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer r.close()
	b := &tunnelBench{bench: r}
	if err := b.serve(ctx); err != nil {
		return nil, err
	}
	if b.agent, err = r.startAgent(ctx, "tunnel-agent"); err != nil {
		return nil, err
	}
	defer b.agent.stop()
	sizes := []*tunnelSize{{others: 10}, {others: max(10, 10_000/s.shrink)}}
	for range tunnelRounds {
		for _, x := range sizes {
			fmt.Println("one more peer beside", x.others, "others; load", loadAverage())
			if err := b.round(ctx, x); err != nil {
				return nil, err
			}
		}
	}
	few, many := sizes[0], sizes[1]
	for _, x := range sizes {
		goals = append(goals, x.goals()...)
	}
	for i, verb := range tunnelVerbs {
		at, before := median(many.ours[i]), median(few.ours[i])
		goals = append(goals, goal{fmt.Sprintf("N1 peer %s, %d peers / %d peers", verb.name, many.others, few.others), at / before, "x", 1.3, false, milliseconds(at, before)})
	}
	got, err := b.whole(many.others)
	return append(goals, got...), err
}

// serve creates the tunnel, and the peer that communicates.
func (b *tunnelBench) serve(ctx context.Context) error {
	var ours, theirs, talker struct {
		ID         uuid.UUID
		PublicKey  string `json:"public_key"`
		ListenPort int    `json:"listen_port"`
	}
	if err := b.change("tunnel", http.MethodPost, "/tunnel/interfaces", map[string]any{"name": tunnelOurs, "address_cidr": tunnelHere + "/16"}, &ours); err != nil {
		return err
	}
	if err := b.change("tunnel", http.MethodPost, "/tunnel/interfaces", map[string]any{"name": "gwoff0", "address_cidr": "10.89.0.1/16", "active": false}, &theirs); err != nil {
		return err
	}
	// Rules of its zone decide about packets from the tunnel to the gateway itself.
	if err := b.change("network", http.MethodPost, "/network-interfaces", map[string]any{"name": tunnelOurs, "type": "wireguard", "role": "lan"}, nil); err != nil {
		return err
	}
	if err := b.change("packet-filter", http.MethodPost, "/firewall/rules", map[string]any{"name": "inside", "src_zone": "lan", "action": "accept"}, nil); err != nil {
		return err
	}
	private, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return err
	}
	body := map[string]any{"name": "talker", "public_key": private.PublicKey().String(), "allowed_ips": tunnelThere + "/32"}
	if err := b.change("tunnel", http.MethodPost, "/tunnel/interfaces/"+ours.ID.String()+"/peers", body, &talker); err != nil {
		return err
	}
	b.ours, b.theirs, b.talker = ours.ID, theirs.ID, talker.ID
	cmd, err := b.lab.Command(ctx, lab.Wan, "sh", "-ec", fmt.Sprintf(`
		ip link add %[1]s type wireguard 2>/dev/null || wireguard-go %[1]s
		wg setconf %[1]s /dev/stdin
		ip address add %[2]s/16 dev %[1]s
		ip link set %[1]s up`, tunnelDevice, tunnelThere))
	if err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(fmt.Sprintf("[Interface]\nPrivateKey = %s\n[Peer]\nPublicKey = %s\nEndpoint = 198.51.100.1:%d\nAllowedIPs = %s/32\n", private, ours.PublicKey, ours.ListenPort, tunnelHere))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making a device: %w: %s", err, out)
	}
	return nil
}

// fill stores the given number of peers in addition to the one that communicates, and applies them to both tunnels.
func (b *tunnelBench) fill(ctx context.Context, n int) error {
	if _, err := b.pool.Exec(ctx, `DELETE FROM tunnel_peers WHERE id <> $1`, b.talker); err != nil {
		return err
	}
	if err := b.storePeers(ctx, b.ours, n); err != nil {
		return err
	}
	if _, err := b.pool.Exec(ctx, `ANALYZE`); err != nil {
		return err
	}
	if err := b.change("", http.MethodPost, "/system/render-configs", nil, nil); err != nil {
		return err
	}
	_, err := b.agent.tell(fmt.Sprintf("fill %d", n))
	return err
}

func (b *bench) storePeers(ctx context.Context, tunnel uuid.UUID, n int) error {
	_, err := b.pool.Exec(ctx, `
		INSERT INTO tunnel_peers (id, created_at, updated_at, interface_id, name, public_key, allowed_ips, endpoint, keepalive, active)
		SELECT gen_random_uuid(), now(), now(), $1, 'peer ' || i, encode(sha256(('peer ' || i)::bytea), 'base64'), '10.88.' || (i + 3) / 256 || '.' || (i + 3) % 256 || '/32', '', 0, true
		FROM generate_series(0, $2 - 1) i`, tunnel, n)
	return err
}

// tunnelPeer is a peer that is added, changed and removed.
type tunnelPeer struct {
	id      uuid.UUID
	name    string
	network string
}

func (p *tunnelPeer) key() wgtypes.Key { return sha256.Sum256([]byte(p.name)) }

// tunnelVerbs are what happens to a peer: the gateway's way, the statement of the bare one, and how many are left when it has
// happened to all.
var tunnelVerbs = []struct {
	name string
	left int
	ours func(b *tunnelBench, p *tunnelPeer) error
	bare func(b *tunnelBench, p *tunnelPeer) (statement string, args []any)
}{
	{"made", tunnelChanges,
		func(b *tunnelBench, p *tunnelPeer) error {
			var row struct{ ID uuid.UUID }
			err := b.change("tunnel", http.MethodPost, "/tunnel/interfaces/"+b.ours.String()+"/peers", map[string]any{"name": p.name, "public_key": p.key().String(), "allowed_ips": p.network}, &row)
			p.id = row.ID
			return err
		},
		func(b *tunnelBench, p *tunnelPeer) (string, []any) {
			p.id = uuid.New()
			return `INSERT INTO tunnel_peers (id, created_at, updated_at, interface_id, name, public_key, allowed_ips, endpoint, keepalive, active) VALUES ($1, now(), now(), $2, $3, $4, $5, '', 0, true)`,
				[]any{p.id, b.theirs, p.name, p.key().String(), p.network}
		}},
	{"changed", tunnelChanges,
		func(b *tunnelBench, p *tunnelPeer) error {
			return b.change("tunnel", http.MethodPut, "/peers/"+p.id.String(), map[string]any{"allowed_ips": p.network}, nil)
		},
		func(_ *tunnelBench, p *tunnelPeer) (string, []any) {
			return `UPDATE tunnel_peers SET updated_at = now(), allowed_ips = $2 WHERE id = $1`, []any{p.id, p.network}
		}},
	{"deleted", 0,
		func(b *tunnelBench, p *tunnelPeer) error {
			return b.change("tunnel", http.MethodDelete, "/peers/"+p.id.String(), nil, nil)
		},
		func(_ *tunnelBench, p *tunnelPeer) (string, []any) {
			return `DELETE FROM tunnel_peers WHERE id = $1`, []any{p.id}
		}},
}

// tunnelSize is the result with a number of other peers.
type tunnelSize struct {
	others     int
	ours, bare [3][]float64 // by verb
	sent, lost int
}

func (x *tunnelSize) goals() (goals []goal) {
	for i, verb := range tunnelVerbs {
		ours, bare := median(x.ours[i]), median(x.bare[i])
		goals = append(goals, goal{fmt.Sprintf("N1 peer %s / commit + bare update, %d peers", verb.name, x.others), ours / bare, "x", 2, false, milliseconds(ours, bare) + "; p95 " + milliseconds(p95(x.ours[i]), p95(x.bare[i]))})
	}
	return append(goals, goal{"   packets of another peer lost meanwhile", float64(x.lost), "", 0, false, fmt.Sprintf("of %d", x.sent)})
}

// round adds, changes and removes peers while another one communicates.
func (b *tunnelBench) round(ctx context.Context, x *tunnelSize) error {
	if err := b.fill(ctx, x.others); err != nil {
		return err
	}
	talk, err := b.talk()
	if err != nil {
		return err
	}
	defer talk.close()
	ours, theirs := make([]tunnelPeer, tunnelChanges), make([]tunnelPeer, tunnelChanges)
	for v, verb := range tunnelVerbs {
		for i := range tunnelChanges {
			us, them := &ours[i], &theirs[i]
			us.name, us.network = fmt.Sprintf("ours %d", i), fmt.Sprintf("10.88.%d.%d/32", 200+v, i)
			them.name, them.network = fmt.Sprintf("theirs %d", i), fmt.Sprintf("10.89.%d.%d/32", 200+v, i)
			took, err := seconds(func() error { return verb.ours(b, us) })
			if err != nil {
				return err
			}
			statement, args := verb.bare(b, them)
			commit, err := seconds(func() error { return bareTransaction(ctx, b.pool, statement, args...) })
			if err != nil {
				return err
			}
			update, err := b.agent.tell(fmt.Sprintf("%s %s %s", verb.name, them.key(), them.network))
			if err != nil {
				return err
			}
			if i >= tunnelFirst {
				x.ours[v], x.bare[v] = append(x.ours[v], took), append(x.bare[v], commit+update)
			}
		}
		// Reading a tunnel with many peers takes far longer than changing it, so it is read when nothing is measured.
		if err := b.verify(ours, x.others+1, verb.left); err != nil {
			return fmt.Errorf("after peers were %s: %w", verb.name, err)
		}
	}
	sent, lost := talk.end()
	x.sent, x.lost = x.sent+sent, x.lost+lost
	return nil
}

// verify complains unless the gateway's tunnel has the expected peers in addition to the others, with their networks.
func (b *tunnelBench) verify(peers []tunnelPeer, others, left int) error {
	var list strings.Builder
	for _, p := range peers {
		fmt.Fprintf(&list, " %s %s", p.key(), p.network)
	}
	all, err := b.agent.tell("count " + tunnelOurs)
	if err != nil {
		return err
	}
	these, err := b.agent.tell("find " + tunnelOurs + list.String())
	if err == nil && (int(these) != left || int(all) != others+left) {
		err = fmt.Errorf("%s has %.0f peers, %.0f of these, and not %d and %d", tunnelOurs, all, these, others+left, left)
	}
	return err
}

// whole measures operations on all peers: reading them, and a full apply.
func (b *tunnelBench) whole(n int) (goals []goal, err error) {
	path := "/tunnel/interfaces/" + b.ours.String()
	for _, read := range []struct{ name, path string }{
		{"list", path + "/peers"}, {"status", "/tunnel/status"}, {"next address", path + "/next-address"},
	} {
		times, err := inTurns(settings{rounds: 5}, func(time.Duration) (float64, error) {
			return seconds(func() error { return b.change("", http.MethodGet, read.path, nil, nil) })
		})
		if err != nil {
			return nil, err
		}
		goals = append(goals, goal{fmt.Sprintf("   %s of %d peers", read.name, n), times[0], "s", 1, false, ""})
	}
	apply := func() error { return b.change("", http.MethodPost, "/system/render-configs", nil, nil) }
	times, err := inTurns(settings{rounds: 5},
		func(time.Duration) (float64, error) { return seconds(apply) },
		func(time.Duration) (float64, error) {
			if _, err := b.agent.tell("remove " + tunnelOurs); err != nil {
				return 0, err
			}
			return seconds(apply)
		},
		func(time.Duration) (float64, error) { return b.agent.tell(fmt.Sprintf("fill %d", n)) })
	if err != nil {
		return nil, err
	}
	return append(goals,
		goal{fmt.Sprintf("   full apply, nothing differs, %d peers", n), times[0], "s", 0, true, "for scale"},
		goal{fmt.Sprintf("   tunnel anew / bare update of %d peers", n), times[1] / times[2], "x", 0, true, "for scale; " + milliseconds(times[1:]...)}), b.verify(nil, n+1, 0)
}

// talk is the peer on the wan side that sends packets to the gateway, which sends them back.
type talk struct {
	peer, gateway net.Conn
	packets       sync.WaitGroup
	ended         chan struct{}
	sent          uint64
	answered      map[uint64]bool
}

// talk starts when the peer is answered: then the tunnel is up.
func (b *tunnelBench) talk() (*talk, error) {
	t := &talk{ended: make(chan struct{}), answered: map[uint64]bool{}}
	at := &net.UDPAddr{IP: net.ParseIP(tunnelHere), Port: 7}
	var echo *net.UDPConn
	if err := b.lab.Within(lab.Gateway, func() (err error) { echo, err = net.ListenUDP("udp", at); return err }); err != nil {
		return nil, err
	}
	t.gateway = echo
	if err := b.lab.Within(lab.Wan, func() (err error) { t.peer, err = net.DialUDP("udp", nil, at); return err }); err != nil {
		_ = echo.Close()
		return nil, err
	}
	go func() {
		packet := make([]byte, 64)
		for {
			n, from, err := echo.ReadFromUDPAddrPort(packet)
			if err != nil {
				return // it is closed
			}
			_, _ = echo.WriteToUDPAddrPort(packet[:n], from)
		}
	}()
	packet := make([]byte, 8)
	for range 200 {
		_ = t.peer.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = t.peer.Write(packet)
		if _, err := t.peer.Read(packet); err == nil {
			t.packets.Go(t.send)
			t.packets.Go(t.receive)
			return t, nil
		}
	}
	t.close()
	return nil, errors.New("the peer on the wan side gets no answer through the tunnel")
}

func (t *talk) send() {
	pause := time.NewTicker(tunnelPause)
	defer pause.Stop()
	for {
		select {
		case <-t.ended:
			// The last ones are on their way.
			_ = t.peer.SetReadDeadline(time.Now().Add(time.Second))
			return
		case <-pause.C:
			t.sent++ // those before have the number 0
			_, _ = t.peer.Write(binary.BigEndian.AppendUint64(nil, t.sent))
		}
	}
}

func (t *talk) receive() {
	_ = t.peer.SetReadDeadline(time.Time{})
	packet := make([]byte, 8)
	for {
		if _, err := t.peer.Read(packet); err != nil {
			return
		}
		if n := binary.BigEndian.Uint64(packet); n > 0 {
			t.answered[n] = true
		}
	}
}

// end answers how many packets were sent, and how many of them were lost.
func (t *talk) end() (sent, lost int) {
	close(t.ended)
	t.packets.Wait()
	return int(t.sent), int(t.sent) - len(t.answered)
}

func (t *talk) close() {
	t.peer.Close()
	t.gateway.Close()
}

// tunnelAgent changes tunnels without the gateway.
func tunnelAgent() error {
	machine, err := machine.New(machine.Options{Units: units.None{Reason: "a benchmark"}})
	if err != nil {
		return err
	}
	if err := machine.CreateTunnel(context.Background(), tunnelBare, "bench"); err != nil {
		return err
	}
	wireguard, err := wgctrl.New()
	if err != nil {
		return err
	}
	return serveAgent(func(verb, operand string) (float64, error) {
		words := strings.Fields(operand)
		switch verb {
		case "fill":
			return fillTunnel(wireguard, words[0])
		case "made", "changed":
			return changeTunnel(wireguard, words[0], words[1])
		case "deleted":
			return changeTunnel(wireguard, words[0], "")
		case "remove":
			return 0, machine.RemoveTunnel(context.Background(), words[0])
		case "count":
			peers, err := tunnelPeers(wireguard, words[0])
			return float64(len(peers)), err
		case "find":
			peers, err := tunnelPeers(wireguard, words[0])
			found := 0
			for peer := range slices.Chunk(words[1:], 2) {
				if peers[peer[0]] == peer[1] {
					found++
				}
			}
			return float64(found), err
		}
		return 0, errors.New("not known")
	})
}

// fillTunnel adds a number of peers to the bare tunnel, if it has none.
func fillTunnel(wireguard *wgctrl.Client, number string) (float64, error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0, err
	}
	private, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return 0, err
	}
	if err := wireguard.ConfigureDevice(tunnelBare, wgtypes.Config{PrivateKey: &private, ReplacePeers: true}); err != nil {
		return 0, err
	}
	var c wgtypes.Config
	for i := range n {
		at := net.IPNet{IP: net.IPv4(10, 89, byte((i+3)>>8), byte(i+3)), Mask: net.CIDRMask(32, 32)}
		c.Peers = append(c.Peers, wgtypes.PeerConfig{PublicKey: sha256.Sum256(fmt.Appendf(nil, "peer %d", i)), ReplaceAllowedIPs: true, AllowedIPs: []net.IPNet{at}})
	}
	return seconds(func() error { return wireguard.ConfigureDevice(tunnelBare, c) })
}

// changeTunnel sets the network of one peer of the bare tunnel, or removes the peer if there is none.
func changeTunnel(wireguard *wgctrl.Client, key, network string) (float64, error) {
	k, err := wgtypes.ParseKey(key)
	if err != nil {
		return 0, err
	}
	peer := wgtypes.PeerConfig{PublicKey: k, Remove: network == ""}
	if !peer.Remove {
		_, at, err := net.ParseCIDR(network)
		if err != nil {
			return 0, err
		}
		peer.ReplaceAllowedIPs, peer.AllowedIPs = true, []net.IPNet{*at}
	}
	return seconds(func() error {
		return wireguard.ConfigureDevice(tunnelBare, wgtypes.Config{Peers: []wgtypes.PeerConfig{peer}})
	})
}

// tunnelPeers are the peers of a tunnel, and their networks.
func tunnelPeers(wireguard *wgctrl.Client, link string) (map[string]string, error) {
	d, err := wireguard.Device(link)
	if err != nil {
		return nil, err
	}
	peers := map[string]string{}
	for _, p := range d.Peers {
		for _, n := range p.AllowedIPs {
			peers[p.PublicKey.String()] += n.String()
		}
	}
	return peers, nil
}
