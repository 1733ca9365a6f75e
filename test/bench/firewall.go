package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/helper"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/filter/nfnl"
	"edge.internal/gateway/internal/kit/host/machine/units"
)

// measureFirewall compares what a change of the packet filter costs with the bare load of the same table, and what reading
// its counters costs with nft's own way.
func measureFirewall(ctx context.Context, s settings) ([]goal, error) {
	fmt.Println("a lab, with the packet filter of the kernel")
	f, err := newFilterBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer f.close()
	var goals []goal
	var few float64
	for _, n := range []int{100, 1000, 10000, 50000} {
		if err := f.fill(ctx, n); err != nil {
			return goals, err
		}
		if _, err := f.bare(ctx); err != nil { // the first has nothing to replace
			return goals, err
		}
		rounds := 25
		if n >= 10000 {
			rounds = 11
		}
		times, err := inTurns(settings{rounds: rounds},
			func(time.Duration) (float64, error) {
				// To the gateway, the bare work is that of another program, after which it has to verify its table.
				if err := f.change(ctx); err != nil {
					return 0, err
				}
				return seconds(func() error { return f.change(ctx) })
			},
			func(time.Duration) (float64, error) { return f.bare(ctx) },
			func(time.Duration) (float64, error) { return f.bareRule(ctx) },
			func(time.Duration) (float64, error) { return f.agent.tell("whole " + kept) })
		if err != nil {
			return goals, err
		}
		live, whole, rule, batch := times[0], times[1], times[2], times[3]
		fmt.Printf("  %d rules: one more %s, the whole table by nft %s; load %s\n", n, milliseconds(live, rule), milliseconds(whole), loadAverage())
		bar := 3.0
		if n < 10000 {
			bar = 0
		}
		goals = append(goals,
			goal{fmt.Sprintf("rule live in the kernel / commit + nft -f, %d rules", n), live / whole, "x", 1.3, false, milliseconds(live, whole)},
			goal{fmt.Sprintf("F2 rule live / commit + one rule told to the kernel, %d rules", n), live / rule, "x", bar, bar == 0, milliseconds(live, rule)},
			goal{fmt.Sprintf("F1 whole table told to the kernel / nft -f, %d rules", n), batch / whole, "x", 0.5, false, milliseconds(batch, whole)})
		switch {
		case n == 100:
			few = live
		case n >= 10000:
			goals = append(goals, goal{fmt.Sprintf("F2 rule live, %d rules / 100 rules", n), live / few, "x", 2, false, milliseconds(live, few)})
		}
		if n == 10000 {
			counters, err := f.counters(ctx)
			if err != nil {
				return goals, err
			}
			goals = append(goals, counters)
		}
	}
	notes, err := f.notes(ctx)
	return append(goals, notes), err
}

// filterBench is a lab, its database, and an agent in its network.
type filterBench struct {
	*bench
	agent *agent
	made  int
	rule  string
}

func newFilterBench(ctx context.Context, s settings) (*filterBench, error) {
	r, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	f := &filterBench{bench: r}
	if f.agent, err = r.startAgent(ctx, "filter-agent"); err != nil {
		r.close()
		return nil, err
	}
	return f, nil
}

func (f *filterBench) close() {
	f.agent.stop()
	f.bench.close()
}

// fill stores n rules and applies them, however long that takes.
func (f *filterBench) fill(ctx context.Context, n int) error {
	if err := f.storeRules(ctx, n); err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < 5*time.Minute; time.Sleep(50 * time.Millisecond) {
		var all struct {
			Data []struct {
				Name, State     string
				Revision        int64
				AppliedRevision int64 `json:"applied_revision"`
			}
		}
		_, body, err := f.call(ctx, http.MethodGet, "/system/components", "")
		if err == nil {
			err = json.Unmarshal(body, &all)
		}
		if err != nil {
			return err
		}
		stored, err := apply.Revision(ctx, f.pool, apply.PacketFilter)
		if err != nil {
			return err
		}
		for _, c := range all.Data {
			if c.Name == "packet-filter" && c.State == "live" && c.AppliedRevision >= stored {
				return f.change(ctx)
			}
		}
	}
	return fmt.Errorf("%d rules are not live", n)
}

// storeRules stores n rules, over five zones with one interface each.
func (b *bench) storeRules(ctx context.Context, n int) error {
	_, err := b.pool.Exec(ctx, `
		INSERT INTO network_interfaces (id, created_at, updated_at, name, type, role, parent, members, description, active)
		SELECT gen_random_uuid(), now(), now(), z || '9', 'wireguard', z, '', '{}', '', true FROM unnest(ARRAY['dmz', 'mgmt', 'cluster']) z
		ON CONFLICT DO NOTHING`)
	if err != nil {
		return fmt.Errorf("declaring interfaces: %w", err)
	}
	if _, err := b.pool.Exec(ctx, `DELETE FROM firewall_rules`); err != nil {
		return err
	}
	_, err = b.pool.Exec(ctx, `
		INSERT INTO firewall_rules (id, created_at, updated_at, name, src_zone, src_kind, src_cidr, dst_zone, dst_kind, dst_cidr, service_object_id, action, log, priority, enabled, comment, note, labels)
		SELECT gen_random_uuid(), now(), now(), 'rule ' || i, (ARRAY['wan', 'lan', 'dmz', 'mgmt', 'cluster'])[1 + i % 5], 'cidr', '10.' || i / 250 || '.' || i % 250 || '.0/24',
			(ARRAY['wan', 'lan', 'dmz', 'mgmt', 'cluster'])[1 + i / 5 % 5], 'cidr', '172.16.' || i / 250 || '.' || i % 250 || '/32',
			'00000000-0000-7000-8000-000000000202', 'accept', false, i * 10, true, '', '', '{}' FROM generate_series(1, $1) i`, n)
	if err != nil {
		return fmt.Errorf("storing rules: %w", err)
	}
	// Every change increases the revision of the components that depend on it.
	_, err = b.pool.Exec(ctx, `INSERT INTO apply_revisions AS mine (component, revision) VALUES ('packet-filter', 1) ON CONFLICT (component) DO UPDATE SET revision = mine.revision + 1`)
	return err
}

func (f *filterBench) call(ctx context.Context, method, path, body string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://gateway/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	res, err := f.lab.Client().Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s answers %d: %s", method, path, res.StatusCode, content)
	}
	return res, content, err
}

// change adds a rule, which must be live when the request is answered.
func (f *filterBench) change(ctx context.Context) error {
	f.made++
	res, body, err := f.call(ctx, http.MethodPost, "/firewall/rules", fmt.Sprintf(`{"name":"made %d","src_zone":"lan","dst_zone":"wan","src_kind":"cidr","src_cidr":"192.168.%d.0/24","action":"accept"}`, f.made, f.made%250))
	if err != nil {
		return err
	}
	if live := res.Header.Get("Gateway-Apply"); live != "packet-filter=live" {
		return fmt.Errorf("the change answers %s", live)
	}
	var row struct{ Data struct{ ID string } }
	err = json.Unmarshal(body, &row)
	f.rule = row.Data.ID
	return err
}

const kept = "/var/lib/gateway-helper/packet-filter.nft"

// bare is a commit, and nft putting a copy of the table, under another name, in the place of the one before.
func (f *filterBench) bare(ctx context.Context) (float64, error) {
	table, err := os.ReadFile(f.lab.Path(kept))
	if err != nil {
		return 0, err
	}
	copied := kept + ".bench"
	if err := os.WriteFile(f.lab.Path(copied), bytes.ReplaceAll(table, []byte("table inet gateway"), []byte("table inet bench")), 0o600); err != nil {
		return 0, err
	}
	commit, err := seconds(func() error { return bareTransaction(ctx, f.pool, touchSettings) })
	if err != nil {
		return 0, err
	}
	load, err := f.agent.tell("load " + copied)
	return commit + load, err
}

// bareRule is a commit, and one more rule in a chain of the copy of the table.
func (f *filterBench) bareRule(ctx context.Context) (float64, error) {
	commit, err := seconds(func() error { return bareTransaction(ctx, f.pool, touchSettings) })
	if err != nil {
		return 0, err
	}
	add, err := f.agent.tell("rule " + kept + ".bench")
	return commit + add, err
}

// counters compares reading the counters of all rules with nft's listing and its parse.
func (f *filterBench) counters(ctx context.Context) (goal, error) {
	times, err := inTurns(settings{rounds: 9},
		func(time.Duration) (float64, error) {
			time.Sleep(300 * time.Millisecond) // so that no other answer is read
			return seconds(func() error { _, _, err := f.call(ctx, http.MethodGet, "/firewall/counters", ""); return err })
		},
		func(time.Duration) (float64, error) { return f.agent.tell("list") })
	if err != nil {
		return goal{}, err
	}
	return goal{"counters of 10,000 rules / nft -j list and its parse", times[0] / times[1], "x", 0.1, false, fmt.Sprintf("%.1f ms, %.1f ms", times[0]*1000, times[1]*1000)}, nil
}

// notes counts what a change of notes and labels does to the kernel and to the files.
func (f *filterBench) notes(ctx context.Context) (goal, error) {
	touched := func() (float64, error) {
		generation, err := f.agent.tell("generation")
		if err != nil {
			return 0, err
		}
		var files float64
		for _, name := range []string{kept, "/var/lib/gateway/good/packet-filter/list.json"} {
			info, err := os.Stat(filepath.Clean(f.lab.Path(name)))
			if err != nil {
				return 0, err
			}
			files += float64(info.ModTime().UnixNano() % 1e15)
		}
		return generation + files, nil
	}
	time.Sleep(time.Second) // the last change keeps its table after it has answered
	before, err := touched()
	if err != nil {
		return goal{}, err
	}
	took, err := seconds(func() error {
		for i := range 100 {
			if _, _, err := f.call(ctx, http.MethodPatch, "/firewall/rules/"+f.rule, fmt.Sprintf(`{"note":"note %d","labels":["a","b%d"]}`, i, i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return goal{}, err
	}
	after, err := touched()
	changed := 0.0
	if after != before {
		changed = 1
	}
	return goal{"100 changes of notes: transactions of nft, files", changed, "", 0, false, fmt.Sprintf("%.2f ms each", took*10)}, err
}

const benchTable = "bench"

// oneRule adds a rule to a chain between two zones, and removes it again, which is not measured.
func oneRule(kernel *nfnl.Socket, text string) (took float64, err error) {
	table, err := nft.Read(benchTable, text)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(table.Chains, func(c nft.ListedChain) bool { return strings.HasPrefix(c.Name, "seg/lan/wan/") })
	if i < 0 {
		return 0, errors.New("no rules from lan to wan")
	}
	chain, rules := table.Chains[i].Name, len(table.Chains[i].Rules())
	tell := func(e nft.Edit) (float64, error) {
		state, err := kernel.ReadState(context.Background(), benchTable)
		if err != nil {
			return 0, err
		}
		change := nft.Change{Generation: state.Generation, Edits: []nft.Edit{e}}
		return seconds(func() error { _, err := kernel.Change(context.Background(), benchTable, "gid:", &change); return err })
	}
	rule := `ip saddr 192.168.1.0/24 counter accept comment "gid:one more"`
	if took, err = tell(nft.Edit{Chain: chain, Rules: rules, Add: []nft.Addition{{Before: rules, Rule: rule}}}); err == nil {
		_, err = tell(nft.Edit{Chain: chain, Rules: rules + 1, Remove: []int{rules}})
	}
	return took, err
}

// filterAgent does the bare work in the lab's network.
func filterAgent() error {
	const program = "/usr/sbin/nft"
	machine, err := machine.New(machine.Options{Units: units.None{Reason: "a benchmark"}})
	if err != nil {
		return err
	}
	gateway := helper.New(machine, host.HelperSocket)
	var kernel nfnl.Socket
	return serveAgent(func(verb, path string) (v float64, err error) {
		switch verb {
		case "whole":
			text, err := os.ReadFile(filepath.Clean(path))
			if err != nil {
				return 0, err
			}
			return seconds(func() error {
				_, err := gateway.FilterLoad(context.Background(), host.File{Place: nftables.Table, Content: text})
				return err
			})
		case "rule":
			text, err := os.ReadFile(filepath.Clean(path))
			if err != nil {
				return 0, err
			}
			return oneRule(&kernel, string(text))
		case "load":
			return seconds(func() error { return exec.Command(program, "-f", path).Run() })
		case "generation":
			state, err := machine.FilterState(context.Background())
			return float64(state.Generation), err
		case "list":
			return seconds(func() error {
				out, err := exec.Command(program, "-j", "list", "table", "inet", "gateway").Output()
				if err != nil {
					return err
				}
				var table any
				return json.Unmarshal(out, &table)
			})
		}
		return 0, errors.New("not known")
	})
}
