package tunnel

import (
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

const (
	// measureOver is the minimum time between two readings for a rate, and rateAge the maximum age of the first one. The kernel is read
	// every ten seconds anyway, to check its state.
	measureOver = time.Second
	rateAge     = 30 * time.Second
)

// meter derives rates from the counters of peers.
type meter struct {
	mu       sync.Mutex
	was, now reading
}

type reading struct {
	at       time.Time
	counters map[counted]counter
}

// counted identifies a peer of a link.
type counted struct {
	link string
	key  host.TunnelKey
}

type counter struct{ rx, tx int64 }

// add records the counters at a time.
func (m *meter) add(at time.Time, devices []host.TunnelDevice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Sub(m.now.at) < measureOver {
		return
	}
	counters := map[counted]counter{}
	for _, d := range devices {
		for _, p := range d.Peers {
			counters[counted{d.Name, p.PublicKey}] = counter{p.Rx, p.Tx}
		}
	}
	m.was, m.now = m.now, reading{at, counters}
}

// rates returns bytes per second between the last two readings; zero if there are none, and for a peer whose counters restarted.
func (m *meter) rates(link string, key host.TunnelKey) (rx, tx float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := m.now.at.Sub(m.was.at)
	was, known := m.was.counters[counted{link, key}]
	now, there := m.now.counters[counted{link, key}]
	if !known || !there || since > rateAge || now.rx < was.rx || now.tx < was.tx {
		return 0, 0
	}
	return float64(now.rx-was.rx) / since.Seconds(), float64(now.tx-was.tx) / since.Seconds()
}
