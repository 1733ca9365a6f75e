package tunnel_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/watch/watchtest"
	"edge.internal/gateway/internal/tunnel"
)

// AL-06: a client tunnel is down after more than five minutes without a handshake, or without any. One on another node is not.
func TestAL06TunnelDown(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, tunnel.Check)
	now := w.Clock.Now()
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	var rows []map[string]any
	status := map[string]tunnel.PeerStatus{}
	add := func(name, link, mode string, active bool, since time.Time, handshake *time.Time) {
		key := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%032d", len(rows)))
		rows = append(rows, map[string]any{"id": w.ID(name), "name": link, "mode": mode, "active": active, "updated_at": since, "upstream_public_key": key})
		status[key] = tunnel.PeerStatus{Interface: link, LastHandshake: handshake}
	}
	add("up", "wg0", "client", true, now.Add(-time.Hour), ago(5*time.Minute))
	add("down", "wg1", "client", true, now.Add(-time.Hour), ago(5*time.Minute+time.Second))
	add("never", "wg2", "client", true, now.Add(-time.Hour), nil)
	add("new", "wg3", "client", true, now, nil)
	add("elsewhere", "wg4", "client", true, now.Add(-time.Hour), nil)
	add("off", "wg5", "client", false, now.Add(-time.Hour), nil)
	add("server", "wg6", "server", true, now.Add(-time.Hour), nil)
	w.Answers["/tunnel/interfaces"], w.Answers["/tunnel/status"] = rows, status
	w.Answers["/tunnel/devices"] = []tunnel.Device{{Name: "wg1"}, {Name: "wg4", Elsewhere: true}}
	w.Want(t, "wg.tunnel.down error down", "wg.tunnel.down error never")
	key := rows[1]["upstream_public_key"].(string)
	status[key] = tunnel.PeerStatus{Interface: "wg1", LastHandshake: ago(time.Second)}
	w.Answers["/tunnel/interfaces"] = rows[:2]
	w.Want(t)
	status[key] = tunnel.PeerStatus{Interface: "wg1", Error: "WireGuard does not answer"}
	if err := w.Look(t); err == nil {
		t.Error("the check has not failed")
	}
}
