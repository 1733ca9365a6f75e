package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
)

const (
	// backupRows is how many rules, domains and records are backed up, each.
	backupRows = 10_000
	// backupBackends is how many backends serve the domains.
	backupBackends = 1000
	// backupRounds is how often each side is measured. The first round does not count.
	backupRounds = 8
	// backupMemory is what a backup and its proof may take over what the program has anyway, in MiB.
	backupMemory = 64
	// restoreWithin is how long the API may be away, in seconds.
	restoreWithin = 60
)

// backupBench is a lab with many rows of each kind.
type backupBench struct {
	*bench
	rows int
	// id is that of the last backup, and altered how often the configuration was changed since the rows were stored.
	id      string
	altered int
	// pid is the PID of the API, had its memory before a backup or a proof, and grown the most that one of them has used in addition.
	pid        int
	grown, had float64
}

// measureBackup compares a backup and its proof with PostgreSQL's own programs and a hash, used by hand, and restores it.
func measureBackup(ctx context.Context, s settings) (goals []goal, err error) {
	r, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer r.close()
	b := &backupBench{bench: r, rows: backupRows / s.shrink}
	fmt.Printf("a lab with %d rules, domains and records each; load %s\n", b.rows, loadAverage())
	if err := b.fill(ctx, max(1, backupBackends/s.shrink)); err != nil {
		return nil, err
	}
	unit, err := b.lab.Units().State(ctx, host.API)
	if err != nil {
		return nil, err
	}
	if b.pid, err = b.outside(unit.PID); err != nil {
		return nil, err
	}
	var both, changed, made, proven helperTimes
	sides := []func() ([2]float64, error){
		func() ([2]float64, error) { return b.byHand(ctx) },
		func() ([2]float64, error) { return b.byGateway(func() error { return nil }) },
		func() ([2]float64, error) { return b.byGateway(b.alter) },
	}
	for round := range backupRounds {
		var took [3][2]float64
		// What one side leaves to the disk falls into the time of the next, so they take turns.
		for turn := range sides {
			side := (round + turn) % len(sides)
			if took[side], err = sides[side](); err != nil {
				return nil, err
			}
		}
		hand, ours, other := took[0], took[1], took[2]
		fmt.Printf("round %d of %d: %s; with changes %s; by hand %s; load %s\n", round+1, backupRounds, milliseconds(ours[:]...), milliseconds(other[:]...), milliseconds(hand[:]...), loadAverage())
		if round > 0 {
			both.add([2][]float64{{ours[0] + ours[1]}, {hand[0] + hand[1]}})
			changed.add([2][]float64{{other[0] + other[1]}, {hand[0] + hand[1]}})
			made.add([2][]float64{{ours[0]}, {hand[0]}})
			proven.add([2][]float64{{ours[1]}, {hand[1]}})
		}
	}
	if _, err := sides[1](); err != nil { // the one that is restored contains all changes
		return nil, err
	}
	goals = append(goals,
		both.goal("B1 backup and proof / pg_dump, pg_restore, sha256sum", 1.3),
		changed.goal("B1 the same, three files changed between the two", 1.3),
		made.goal("   backup / pg_dump -Fc, sha256sum", 0),
		proven.goal("   proof / sha256sum, createdb, pg_restore, dropdb", 0),
		goal{"B2 memory of the API over what it had before", b.grown / (1 << 20), "MiB", backupMemory, false, fmt.Sprintf("which was %.0f MiB", b.had/(1<<20))})
	restored, err := b.restore(ctx)
	return append(goals, restored...), err
}

// fill stores the rows, and has the daemons take them.
func (b *backupBench) fill(ctx context.Context, backends int) error {
	err := errors.Join(b.storeRules(ctx, b.rows), b.storeSites(ctx, sites{domains: b.rows, backends: backends}), b.storeRecords(ctx, rowID("dns", 0), rowID("dns", 1), b.rows))
	if err != nil {
		return err
	}
	if err := b.change("", http.MethodPost, "/system/render-configs", nil, nil); err != nil {
		return err
	}
	return b.settled()
}

// settled waits until no component is on its way.
func (b *backupBench) settled() error {
	var all []struct{ Name, State string }
	for begun := time.Now(); time.Since(begun) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
		if err := b.change("", http.MethodGet, "/system/components", nil, &all); err != nil {
			return err
		}
		waiting := slices.ContainsFunc(all, func(c struct{ Name, State string }) bool { return c.State == "pending" })
		if !waiting {
			break
		}
	}
	for _, c := range all {
		if slices.Contains([]string{"reverse-proxy", "packet-filter", "dns"}, c.Name) && c.State != "live" {
			return fmt.Errorf("%s is %s", c.Name, c.State)
		}
	}
	return nil
}

// alter changes the files of three components, so that they differ from those of the last backup: a proof then has to run the
// checkers.
func (b *backupBench) alter() error {
	b.altered++
	name := fmt.Sprintf("altered-%d", b.altered)
	return errors.Join(
		b.change("dns", http.MethodPost, "/dns/records", map[string]any{"zone_id": rowID("dns", 0), "name": name, "type": "A", "value": "10.3.0.1"}, nil),
		b.change("packet-filter", http.MethodPost, "/firewall/rules", map[string]any{"name": name, "src_zone": "lan", "action": "accept"}, nil),
		b.change("reverse-proxy", http.MethodPost, "/backends", map[string]any{"name": name, "health_check_enabled": false}, nil),
		b.settled())
}

// byGateway calls between, creates a backup and proves it, and returns how long each took.
func (b *backupBench) byGateway(between func() error) (took [2]float64, err error) {
	var made struct {
		ID, Status, Error string
		Proof             *struct{ Status, Error string }
	}
	if took[0], err = b.ask("/backups", &made); err != nil {
		return took, err
	}
	if made.Status != "success" {
		return took, fmt.Errorf("the backup: %s", made.Error)
	}
	if err := between(); err != nil {
		return took, err
	}
	if took[1], err = b.ask("/backups/"+made.ID+"/verify", &made); err != nil {
		return took, err
	}
	if made.Proof == nil || made.Proof.Status != "proven" {
		return took, fmt.Errorf("the proof: %+v", made.Proof)
	}
	b.id = made.ID
	return took, nil
}

// ask makes a request, and returns how long it took. It records the memory used.
func (b *backupBench) ask(path string, into any) (took float64, err error) {
	before, err := resident(b.pid)
	if err != nil {
		return 0, err
	}
	if err := forgetPeak(b.pid); err != nil {
		return 0, err
	}
	if took, err = seconds(func() error { return b.change("", http.MethodPost, path, nil, into) }); err != nil {
		return 0, err
	}
	most, err := peak(b.pid)
	if most-before > b.grown {
		b.grown, b.had = most-before, before
	}
	return took, err
}

// byHand does what someone without the gateway would do: dump and hash, and later compare the hash and load the dump into a database that is
// dropped again.
func (b *backupBench) byHand(ctx context.Context) (took [2]float64, err error) {
	socket := b.lab.Path("/run/postgresql")
	dump := filepath.Join(b.dir, "by-hand.dump")
	defer os.Remove(dump)
	var sum []byte
	took[0], err = seconds(func() (err error) {
		if err := run(ctx, "pg_dump", "--format=custom", "--file="+dump, "--dbname="+private.URL(socket, "gateway")); err != nil {
			return err
		}
		sum, err = exec.CommandContext(ctx, "sha256sum", dump).Output()
		return err
	})
	if err != nil {
		return took, err
	}
	const scratch = "by_hand"
	took[1], err = seconds(func() error {
		again, err := exec.CommandContext(ctx, "sha256sum", dump).Output()
		if err == nil && !bytes.Equal(sum, again) {
			err = errors.New("the dump is another one")
		}
		if err != nil {
			return err
		}
		maintenance := "--maintenance-db=" + private.URL(socket, "postgres")
		if err := run(ctx, "createdb", maintenance, "--template=template0", scratch); err != nil {
			return err
		}
		if err := run(ctx, "pg_restore", "--exit-on-error", "--dbname="+private.URL(socket, scratch), dump); err != nil {
			return err
		}
		return run(ctx, "dropdb", maintenance, scratch)
	})
	return took, err
}

func run(ctx context.Context, argv ...string) error {
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", argv[0], err, out)
	}
	return nil
}

// restore deletes all rows, restores the last backup, and measures how long the API was unavailable and how many rows are missing.
func (b *backupBench) restore(ctx context.Context) ([]goal, error) {
	fmt.Println("a restore of that; load", loadAverage())
	d, err := db.Open(private.URL(b.lab.Path("/run/postgresql"), "gateway"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	was, err := d.Server().Contents(ctx, d.Server().Live())
	if err != nil {
		return nil, err
	}
	tables := []string{"firewall_rules", "proxy_domains", "proxy_backends", "proxy_servers", "dns_zones", "dns_records"}
	if _, err := b.pool.Exec(ctx, `TRUNCATE waf_configs, certificate_certificates, proxy_domain_headers, proxy_routing_rules, `+strings.Join(tables, ", ")); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := b.change("", http.MethodPost, "/backups/"+b.id+"/restore", nil, nil); err != nil {
		return nil, err
	}
	var gone time.Time
	away := time.Duration(0)
	for away == 0 {
		_, health, err := b.api.do(http.MethodGet, "/system/health", nil)
		up := err == nil && bytes.Contains(health, []byte(`"database":"up"`))
		switch {
		case !up && gone.IsZero():
			gone = time.Now()
		case up && !gone.IsZero():
			if err := b.change("", http.MethodGet, "/dns/records", nil, nil); err == nil {
				away = time.Since(gone)
			}
		case time.Since(begun) > 10*time.Minute:
			return nil, errors.New("the API was not away, or does not come back")
		}
		time.Sleep(5 * time.Millisecond)
	}
	var last struct{ State, Reason string }
	for last.State == "" || last.State == string(job.Running) {
		content, err := os.ReadFile(b.lab.Path(job.Restore.RecordFile()))
		if err == nil {
			err = json.Unmarshal(content, &last)
		}
		if err != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	whole := time.Since(begun)
	if last.State != string(job.Done) {
		return nil, fmt.Errorf("the restore is %s: %s", last.State, last.Reason)
	}
	now, err := d.Server().Contents(ctx, d.Server().Live())
	if err != nil {
		return nil, err
	}
	var lost int64
	for _, name := range tables {
		if now[name] != was[name] {
			lost += max(1, was[name].Rows-now[name].Rows)
		}
	}
	return []goal{
		{"B3 rows that a restore has lost or changed", float64(lost), "", 0, false, fmt.Sprintf("of %d", was["firewall_rules"].Rows+was["proxy_domains"].Rows+was["dns_records"].Rows)},
		{"B3 the API is back in a restore", away.Seconds(), "s", restoreWithin, false, fmt.Sprintf("the whole restore took %.1f s", whole.Seconds())},
	}, nil
}
