package tunnel

import (
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

func TestRates(t *testing.T) {
	var m meter
	start := time.Unix(1_800_000_000, 0)
	key := host.TunnelKey{1}
	read := func(after time.Duration, rx, tx int64) (float64, float64) {
		m.add(start.Add(after), []host.TunnelDevice{{Name: "wg0", Peers: []host.TunnelPeer{{PublicKey: key, Rx: rx, Tx: tx}}}})
		return m.rates("wg0", key)
	}
	for _, x := range []struct {
		after        time.Duration
		rx, tx       int64
		wantR, wantT float64
		why          string
	}{
		{0, 1000, 2000, 0, 0, "one reading is no rate"},
		{10 * time.Second, 2000, 7000, 100, 500, "ten seconds later"},
		{10*time.Second + 200*time.Millisecond, 9000, 9000, 100, 500, "too soon to tell"},
		{12 * time.Second, 2000, 7000, 0, 0, "nothing came"},
		{14 * time.Second, 10, 10, 0, 0, "it began anew"},
		{16 * time.Second, 30, 50, 10, 20, "and goes on"},
		{10 * time.Minute, 1e9, 1e9, 0, 0, "the reading before is too old"},
	} {
		if r, s := read(x.after, x.rx, x.tx); r != x.wantR || s != x.wantT {
			t.Errorf("%s: %v and %v instead of %v and %v", x.why, r, s, x.wantR, x.wantT)
		}
	}
	if r, s := m.rates("wg1", key); r != 0 || s != 0 {
		t.Error("a peer that nobody knows has a rate")
	}
}
