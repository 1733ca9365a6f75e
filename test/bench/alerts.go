package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"edge.internal/gateway/internal/alert"
	"edge.internal/gateway/internal/backup/remote"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/lab"
)

const (
	// alertFlood is the number of alerts within a minute. They are raised at that rate in alertPairs slices, each next to a slice without alerts;
	// the rest is raised at once at the end.
	alertFlood = 10_000
	alertPairs = 10
	alertSlice = 2200 * time.Millisecond
	// alertSettles is the pause between slices, which is not measured.
	alertSettles = 300 * time.Millisecond
	// alertSenders is how many report them at a time.
	alertSenders = 8
	// alertPace is the interval of requests to the API in the meantime.
	alertPace = 10 * time.Millisecond
	// alertsEndWithin is the time limit for the last alert at the receiver that accepts them: there is a digest a minute.
	alertsEndWithin = 5 * time.Minute
	// alertReceivers is where the receivers of the alerts are, in the lab.
	alertReceivers = "198.51.100.2:8099"
)

// alertBench is a lab with three receivers of alerts: one accepts them, one refuses, and one never answers.
type alertBench struct {
	*bench
	user    string
	told    atomic.Int64 // alerts that the first receiver got, alone or in a digest
	digests atomic.Int64
	tries   [2]atomic.Int64 // of the other two
}

// measureAlerts compares the response times of the API during a flood of alerts, which two of three receivers do not accept, with
// those without alerts.
func measureAlerts(ctx context.Context, s settings) ([]goal, error) {
	r, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer r.close()
	b := &alertBench{bench: r}
	stop, err := b.receive()
	if err != nil {
		return nil, err
	}
	defer stop()
	var me struct{ ID string }
	if err := b.change("", http.MethodPost, "/users", map[string]any{"email": "bench@example.net", "role": "viewer", "password": secret}, &me); err != nil {
		return nil, err
	}
	b.user = me.ID
	for _, name := range []string{"takes", "refuses", "hangs"} {
		if err := b.change("", http.MethodPost, "/alerts", map[string]any{"kind": "webhook", "target": "http://" + alertReceivers + "/" + name, "allow_internal": true}, nil); err != nil {
			return nil, err
		}
	}
	d, err := db.Open(private.URL(b.lab.Path("/run/postgresql"), "gateway"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.Join(ctx); err != nil {
		return nil, err
	}
	flood := alertFlood / s.shrink
	if _, err := b.ask(3 * time.Second); err != nil { // the first prepare statements
		return nil, err
	}
	fmt.Printf("%d alerts in a minute; load %s\n", flood, loadAverage())
	var took [2][]float64
	var ratios []float64
	port, raised := alarm.New(d, clock.Real), 0
	for i := range alertPairs {
		next := raised + int(int64(flood)*int64(alertSlice)/int64(time.Minute))
		var pair [2]float64
		// The machine does other things, too: each side is first as often as the other.
		for turn := range 2 {
			time.Sleep(alertSettles)
			side := (i + turn) % 2
			var sending sync.WaitGroup
			var failed error
			if side == 0 {
				sending.Go(func() { failed = b.raise(ctx, port, raised, next, alertSlice) })
			}
			answers, err := b.ask(alertSlice)
			sending.Wait()
			if err = errors.Join(err, failed); err != nil {
				return nil, err
			}
			pair[side], took[side] = p99(answers), append(took[side], answers...)
		}
		raised, ratios = next, append(ratios, pair[0]/pair[1])
	}
	if err := b.raise(ctx, port, raised, flood, 0); err != nil {
		return nil, err
	}
	fmt.Printf("the flood is over; load %s\n", loadAverage())
	lost, err := b.end(ctx, flood)
	if err != nil {
		return nil, err
	}
	with, without := p99(took[0]), p99(took[1])
	return []goal{
		{"E1 p99 of the API with a flood of alerts / without", with / without, "x", 1.2, false,
			fmt.Sprintf("%s; medians %s; ratios of pairs from %.2f to %.2f, median %.2f", milliseconds(with, without), milliseconds(median(took[0]), median(took[1])), slices.Min(ratios), slices.Max(ratios), median(ratios))},
		{"E2 alerts lost from the history or by a receiver", float64(lost), "", 0, false,
			fmt.Sprintf("of %d; %d digests, %d attempts at the one that refuses, %d at the one that hangs", flood, b.digests.Load(), b.tries[0].Load(), b.tries[1].Load())},
	}, nil
}

func (b *alertBench) receive() (stop func(), err error) {
	over := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/takes", func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Kind, Subject string }
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		n := int64(1)
		if m.Kind == string(alert.Digest.Name) {
			b.digests.Add(1)
			if _, err := fmt.Sscanf(m.Subject, "%d alerts", &n); err != nil {
				return
			}
		}
		b.told.Add(n)
	})
	mux.HandleFunc("/refuses", func(w http.ResponseWriter, _ *http.Request) {
		b.tries[0].Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	})
	mux.HandleFunc("/hangs", func(_ http.ResponseWriter, r *http.Request) {
		b.tries[1].Add(1)
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	var listener net.Listener
	if err := b.lab.Within(lab.Wan, func() (err error) {
		listener, err = net.Listen("tcp", alertReceivers)
		return err
	}); err != nil {
		return nil, err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // until it is closed
	return func() {
		close(over)
		_ = server.Close()
	}, nil
}

// raise reports the alerts of some numbers, evenly over a time.
func (b *alertBench) raise(ctx context.Context, port *alarm.Port, from, to int, over time.Duration) error {
	begun := time.Now()
	var senders sync.WaitGroup
	var failed atomic.Pointer[error]
	for w := range alertSenders {
		senders.Go(func() {
			for i := from + w; i < to; i += alertSenders {
				time.Sleep(time.Until(begun.Add(over * time.Duration(i-from) / time.Duration(to-from))))
				// A kind that no check of the scheduler clears.
				err := port.Raise(ctx, alarm.Alarm{Kind: remote.UploadFailed, Key: fmt.Sprintf("bench %d", i), Subject: fmt.Sprintf("Target %d", i), Message: "It does not answer."})
				if err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	senders.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// ask sends requests to the API for a while, reads and changes in turns, and returns how long each took.
func (b *alertBench) ask(d time.Duration) (took []float64, err error) {
	begun := time.Now()
	for i := 0; time.Since(begun) < d; i++ {
		time.Sleep(time.Until(begun.Add(alertPace * time.Duration(i))))
		method, path, body := http.MethodGet, "/users", any(nil)
		if i%4 == 3 {
			method, path, body = http.MethodPut, "/users/"+b.user, map[string]any{"name": fmt.Sprintf("Name %d", i)}
		}
		one, err := seconds(func() error { return b.change("", method, path, body, nil) })
		if err != nil {
			return nil, err
		}
		took = append(took, one)
	}
	return took, nil
}

// end waits until the receiver that accepts alerts has all of them, and returns how many are missing there, in the history, or in the
// deliveries to the other two.
func (b *alertBench) end(ctx context.Context, n int) (lost int, err error) {
	var events, deliveries, ok int
	for begun := time.Now(); ; time.Sleep(time.Second) {
		err := b.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM alarm_events WHERE key LIKE 'bench %'), count(*), count(*) FILTER (WHERE d.state = 'ok')
			FROM alert_deliveries d JOIN alarm_events e ON e.id = d.event_id WHERE e.key LIKE 'bench %'`).Scan(&events, &deliveries, &ok)
		if err != nil {
			return 0, err
		}
		if ok >= n {
			break
		}
		if time.Since(begun) > alertsEndWithin {
			return 0, fmt.Errorf("%d of %d are in the history, and %d were taken", events, n, ok)
		}
	}
	if b.digests.Load() == 0 || b.tries[0].Load() == 0 || b.tries[1].Load() == 0 {
		return 0, errors.New("there was no digest, or one receiver was not tried")
	}
	return max(n-events, 0) + max(n-int(b.told.Load()), 0) + max(3*n-deliveries, 0), nil
}
