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

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/lab"
)

const (
	// alertFlood is how many alerts there are within a minute, of which half is calm: they come in alertPairs slices, each beside a slice
	// without any.
	alertFlood = 10_000
	alertPairs = 6
	alertSlice = 5 * time.Second
	// alertRounds is how often there is such a minute.
	alertRounds = 3
	// alertSettles is what is left out between slices.
	alertSettles = time.Second
	// alertSenders is how many report them at a time.
	alertSenders = 8
	// alertPace is how often the API is asked something meanwhile.
	alertPace = 10 * time.Millisecond
	// alertsEndWithin is how long the last attempt may take after the flood: a digest a minute, and three attempts each.
	alertsEndWithin = 10 * time.Minute
	// alertReceivers is where the receivers of the alerts are, in the lab.
	alertReceivers = "198.51.100.2:8099"
)

// alertBench is a lab with three receivers of alerts: one takes them, one refuses, and one never answers.
type alertBench struct {
	*bench
	user    string
	told    atomic.Int64 // alerts that the first was told of, alone or in a digest
	digests atomic.Int64
	tries   [2]atomic.Int64 // of the other two
}

// measureAlerts compares how long the API takes to answer during a flood of alerts, two of whose three receivers do not take them, with how
// long it takes beside it.
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
	flood := alertRounds * alertFlood / s.shrink
	if _, err := b.ask(3 * time.Second); err != nil { // the first prepare statements
		return nil, err
	}
	var with, without, ratios []float64
	port, raised := alarm.New(d, clock.Real), 0
	for i := range alertRounds * alertPairs {
		if i%alertPairs == 0 {
			fmt.Printf("%d alerts in a minute; load %s\n", flood/alertRounds, loadAverage())
		}
		next := flood * (i + 1) / (alertRounds * alertPairs)
		var p99 [2]float64
		// The machine does other things, too: each side is first as often as the other.
		for turn := range 2 {
			time.Sleep(alertSettles)
			side := (i + turn) % 2
			var sending sync.WaitGroup
			var failed error
			if side == 0 {
				sending.Go(func() { failed = b.raise(ctx, port, raised, next) })
			}
			took, err := b.ask(alertSlice)
			sending.Wait()
			if err = errors.Join(err, failed); err != nil {
				return nil, err
			}
			slices.Sort(took)
			p99[side] = took[len(took)*99/100]
		}
		raised = next
		with, without, ratios = append(with, p99[0]), append(without, p99[1]), append(ratios, p99[0]/p99[1])
	}
	lost, err := b.end(ctx, flood)
	if err != nil {
		return nil, err
	}
	return []goal{
		{"E1 p99 of the API with a flood of alerts / without", median(ratios), "x", 1.2, false,
			fmt.Sprintf("%s; ratios from %.2f to %.2f", milliseconds(median(with), median(without)), slices.Min(ratios), slices.Max(ratios))},
		{"E2 alerts lost from the history or by a receiver", float64(lost), "", 0, false,
			fmt.Sprintf("of %d; %d digests, %d attempts at the one that refuses, %d at the one that hangs", flood, b.digests.Load(), b.tries[0].Load(), b.tries[1].Load())},
	}, nil
}

// receive takes the alerts.
func (b *alertBench) receive() (stop func(), err error) {
	over := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/takes", func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Kind, Subject string }
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		n := int64(1)
		if m.Kind == string(alarm.Digest) {
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

// raise reports the alerts of some numbers, evenly over a slice.
func (b *alertBench) raise(ctx context.Context, port *alarm.Port, from, to int) error {
	begun := time.Now()
	var senders sync.WaitGroup
	var failed atomic.Pointer[error]
	for w := range alertSenders {
		senders.Go(func() {
			for i := from + w; i < to; i += alertSenders {
				time.Sleep(time.Until(begun.Add(alertSlice * time.Duration(i-from) / time.Duration(to-from))))
				// A kind that no look of the scheduler ends.
				err := port.Raise(ctx, alarm.Alarm{Kind: alarm.BackupUploadFailed, Key: fmt.Sprintf("bench %d", i), Subject: fmt.Sprintf("Target %d", i), Message: "It does not answer."})
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

// ask asks the API something for a while, reads and changes in turns, and answers how long each took.
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

// end waits until each alert has its end at each receiver, and tells how many are missing anywhere.
func (b *alertBench) end(ctx context.Context, n int) (lost int, err error) {
	var events, waiting, ok int
	for begun := time.Now(); ; time.Sleep(time.Second) {
		err := b.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM alarm_events WHERE key LIKE 'bench %'), count(*) FILTER (WHERE d.state = 'waiting'), count(*) FILTER (WHERE d.state = 'ok')
			FROM alert_deliveries d JOIN alarm_events e ON e.id = d.event_id WHERE e.key LIKE 'bench %'`).Scan(&events, &waiting, &ok)
		if err != nil {
			return 0, err
		}
		if waiting == 0 && ok >= n {
			break
		}
		if time.Since(begun) > alertsEndWithin {
			return 0, fmt.Errorf("%d of %d are in the history, %d attempts are outstanding, and %d were taken", events, n, waiting, ok)
		}
	}
	if b.digests.Load() == 0 {
		return 0, errors.New("there was no digest")
	}
	return max(n-events, 0) + max(n-int(b.told.Load()), 0), nil
}
