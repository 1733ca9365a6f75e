package main

import (
	"context"
	"fmt"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/test/node"
)

const (
	// journalLines is how many lines the journal has.
	journalLines = 1_000_000
	// journalRounds is how often each side searches.
	journalRounds = 3
	// journalMemory is what a search may take.
	journalMemory = 50 << 20
)

// measureJournal compares searches of a real journal by the gateway's way with journalctl and the same matches, whose lines go nowhere.
func measureJournal(ctx context.Context, s settings) (goals []goal, err error) {
	n, err := node.Boot(ctx, installRelease)
	if err != nil {
		return nil, err
	}
	defer func() { _ = n.Close() }()
	lines := journalLines / s.shrink
	fmt.Printf("a journal of %d lines; load %s\n", lines, loadAverage())
	if err := n.BringAgent(ctx); err != nil {
		return nil, err
	}
	for path, text := range map[string]string{
		"/etc/systemd/journald.conf.d/bench.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=4G\nSystemKeepFree=64M\nRateLimitIntervalSec=0\n",
		"/etc/systemd/system/unbound.service":     "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nLogRateLimitIntervalSec=0\nExecStart=" + node.Chat(lines) + "\n",
	} {
		if err := n.Write(path, []byte(text)); err != nil {
			return nil, err
		}
	}
	took, err := seconds(func() error {
		_, err := n.Sh(ctx, "mkdir -p /var/log/journal; systemctl restart systemd-journald; systemctl daemon-reload; systemctl start unbound")
		return err
	})
	if err != nil {
		return nil, err
	}
	size, err := n.Sh(ctx, "journalctl --disk-usage")
	if err != nil {
		return nil, err
	}
	fmt.Printf("written in %.0f s; %s\n", took, size)
	for _, x := range []struct {
		name    string
		query   host.JournalQuery
		matches string
		found   int
	}{
		// Without a limit, all the other lines are searched, too.
		{"text of one line", host.JournalQuery{Words: []string{fmt.Sprintf("host-%d.example.net", lines/2+1)}, Level: host.LevelDebug}, "_SYSTEMD_UNIT=unbound.service + UNIT=unbound.service _PID=1", 1},
		{"errors alone", host.JournalQuery{Level: host.LevelError}, "_SYSTEMD_UNIT=unbound.service _TRANSPORT=stdout", lines / 100},
	} {
		x.query.Sources = []host.LogSource{unbound.LogSource}
		var times helperTimes
		var peak int64
		for round := range journalRounds {
			var ours, bare float64
			// Each side is first as often as the other.
			for turn := range 2 {
				if (round+turn)%2 == 1 {
					bare, err = seconds(func() error {
						_, err := n.Sh(ctx, "journalctl --quiet --no-pager --system --reverse "+x.matches+" > /dev/null")
						return err
					})
					if err != nil {
						return nil, err
					}
					continue
				}
				f, err := n.SearchJournal(ctx, "search", x.query)
				if err != nil {
					return nil, err
				}
				if len(f.Entries) != x.found {
					return nil, fmt.Errorf("%s: found %d instead of %d", x.name, len(f.Entries), x.found)
				}
				ours, peak = f.Took.Seconds(), max(peak, f.Peak)
			}
			fmt.Printf("%s: %s; load %s\n", x.name, milliseconds(ours, bare), loadAverage())
			times.add([2][]float64{{ours}, {bare}})
		}
		goals = append(goals,
			times.goal("J1 "+x.name+": search / journalctl", 1.5),
			goal{name: "J2 " + x.name + ": memory of the search", measured: float64(peak) / (1 << 20), unit: "MiB", bar: journalMemory >> 20})
	}
	return goals, nil
}
