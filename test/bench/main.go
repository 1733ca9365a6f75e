// Command bench measures, side by side in one run, what the gateway costs over the bare parts it is made of.
//
// Machines are noisy: only the ratios are claims. The two sides of each are measured in turns, and the medians compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/test/node"
)

// goal is one line of the table.
type goal struct {
	name     string
	measured float64
	unit     string
	bar      float64
	atLeast  bool
	detail   string
}

func (g goal) met() bool {
	if g.atLeast {
		return g.measured >= g.bar
	}
	return g.measured <= g.bar
}

// settings of a run.
type settings struct {
	programs string
	round    time.Duration
	rounds   int
	// shrink divides the large numbers of rows and of changes, for a try of the bench itself.
	shrink int
	// nodes is how many gateways the lab has.
	nodes int
	// alone runs the lab without the helper.
	alone bool
	// soak is the duration of the part with this name.
	soak time.Duration
	// against is a checkout of another commit, with its programs, to compare with; empty for none.
	against string
}

// soak is the part with a configurable duration, which only runs if it is named.
const soak = "soak"

// parts are the parts that can be measured separately.
var parts = []struct {
	name    string
	measure func(context.Context, settings) ([]goal, error)
}{
	{"api", measureAPI}, {"daemon", measureDaemon}, {"firewall", measureFirewall}, {"packets", measurePackets}, {"log", measureLog}, {"requests", measureRequests},
	{"proxy", measureProxy}, {"certificates", measureCertificates}, {"waf", measureWAF}, {"services", measureServices}, {"helper", measureHelper},
	{"backup", measureBackup}, {"alerts", measureAlerts}, {"journal", measureJournal}, {"vrrp", measureVRRP}, {"cluster", measureCluster},
	{"forward", measureForward}, {"document", measureDocument}, {"console", measureConsole}, {"scale", measureScale}, {"install", measureInstall},
	{soak, measureSoak},
}

func main() {
	lab.Init()
	node.SearchesJournal()
	if len(os.Args) > 2 && os.Args[1] == "bare" {
		fail(serveBare(os.Args[2], os.Args[3]))
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "filter-agent" {
		fail(filterAgent())
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "tunnel-agent" {
		fail(tunnelAgent())
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "packetlog" {
		fail(logPackets())
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "waf-peer" {
		fail(serveWAF(os.Args[2]))
		return
	}
	var s settings
	flag.StringVar(&s.programs, "programs", "bin", "folder of the built programs")
	flag.DurationVar(&s.round, "round", time.Second, "how long one side is measured in one turn")
	flag.IntVar(&s.rounds, "rounds", 7, "turns of each side")
	flag.IntVar(&s.shrink, "shrink", 1, "divide the numbers of rows and of changes, for a try")
	flag.StringVar(&s.against, "against", "", "checkout of another commit, whose built programs the part helper compares with")
	flag.DurationVar(&s.soak, "soak", time.Hour, "how long the part soak makes changes, which is run when it is named alone")
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	only := flag.String("only", "", "the only part to run: "+strings.Join(names, ", "))
	flag.Parse()
	if *only != "" && !slices.Contains(names, *only) {
		fail(fmt.Errorf("there is no part %q", *only))
	}
	var err error
	s.programs, err = filepath.Abs(s.programs)
	fail(err)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var goals []goal
	var failures []error
	for _, p := range parts {
		if p.name != *only && (*only != "" || p.name == soak) {
			continue
		}
		got, err := p.measure(ctx, s)
		goals = append(goals, got...)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", p.name, err)) // what was measured is reported anyway
		}
	}
	missed := 0
	fmt.Printf("\n%-52s %12s %12s       %s\n", "what", "measured", "bar", "")
	for _, g := range goals {
		sign, verdict := "≤", "ok"
		if g.atLeast {
			sign = "≥"
		}
		if !g.met() {
			verdict = "MISSED"
			missed++
		}
		fmt.Printf("%-52s %9.2f %-3s %1s %8.2f %-3s  %-7s %s\n", g.name, g.measured, g.unit, sign, g.bar, g.unit, verdict, g.detail)
	}
	if missed > 0 {
		failures = append(failures, fmt.Errorf("%d goals missed", missed))
	}
	fail(errors.Join(failures...))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func median(list []float64) float64 { return quantile(list, 50) }

func p99(list []float64) float64 { return quantile(list, 99) }

func quantile(list []float64, percent int) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)*percent/100]
}

// inTurns measures several sides in turns and answers the median of each.
func inTurns(s settings, sides ...func(time.Duration) (float64, error)) ([]float64, error) {
	all := make([][]float64, len(sides))
	for range s.rounds {
		for i, side := range sides {
			v, err := side(s.round)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], v)
		}
	}
	medians := make([]float64, len(sides))
	for i, list := range all {
		medians[i] = median(list)
	}
	return medians, nil
}
