package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

const (
	// consoleRows is how many rows each list of the console has.
	consoleRows = 10_000
	// consoleFrames is how many frames a list that is scrolled draws, of those that an empty page draws: 40 of 60.
	consoleFrames = 40.0 / 60
	// consoleWork is the limit of the page's main-thread time per frame, in milliseconds: 40 frames a second leave 25.
	consoleWork = 25
)

// frames are those of a page that is scrolled.
type frames struct {
	PerSecond float64 `json:"perSecond"`
	// Longest is the longest time between two of them, in milliseconds.
	Longest float64 `json:"longest"`
	// Late is the share of frames that took longer than 25 ms.
	Late float64 `json:"late"`
}

// measureConsole scrolls every list of the console in a browser, in turns with an empty page.
func measureConsole(ctx context.Context, s settings) ([]goal, error) {
	b, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer b.close()
	rows := consoleRows / s.shrink
	fmt.Printf("the lists of the console with %d rows each; load %s\n", rows, loadAverage())
	report := filepath.Join(b.dir, "lists.json")
	cmd := exec.CommandContext(ctx, "npm", "--prefix", "ui", "run", "--silent", "bench")
	cmd.Env = append(os.Environ(), "GATEWAY_RUN=bench", "GATEWAY_URL="+b.lab.URL(), "GATEWAY_ADMIN_EMAIL="+email, "GATEWAY_ADMIN_PASSWORD="+secret,
		"GATEWAY_LISTS_REPORT="+report, "GATEWAY_ROWS="+strconv.Itoa(rows), "GATEWAY_ROUNDS="+strconv.Itoa(s.rounds))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the browser: %w", err)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var lists []struct {
		Name         string
		Rows         int
		Open, Typing float64
		Work         struct{ All, Script, Style, Layout float64 }
		Bare, Ours   []frames
	}
	if err := json.Unmarshal(text, &lists); err != nil {
		return nil, err
	}
	var goals []goal
	for _, l := range lists {
		if l.Rows < rows {
			return nil, fmt.Errorf("the list of %s has %d rows", l.Name, l.Rows)
		}
		var ratios, perSecond, longest, late []float64
		for i, ours := range l.Ours {
			ratios = append(ratios, ours.PerSecond/l.Bare[i].PerSecond)
			perSecond, longest, late = append(perSecond, ours.PerSecond), append(longest, ours.Longest), append(late, ours.Late)
		}
		goals = append(goals, goal{name: "frames of " + l.Name + ", of an empty page's", measured: median(ratios), unit: "x", bar: consoleFrames, atLeast: true,
			detail: fmt.Sprintf("median of %d; %.0f a second, %.0f %% over 25 ms, the longest %.0f ms; opens in %.1f s, a letter in the search takes %.0f ms",
				len(ratios), median(perSecond), 100*median(late), median(longest), l.Open/1000, l.Typing)},
			goal{name: "work for a frame of " + l.Name, measured: l.Work.All, unit: "ms", bar: consoleWork,
				detail: fmt.Sprintf("of the page's thread; script %.1f, style %.1f, layout %.1f", l.Work.Script, l.Work.Style, l.Work.Layout)})
	}
	return goals, nil
}
