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
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/lab"
)

const (
	// dhcpReservations is how many there are when one more comes.
	dhcpReservations = 5000
	// dhcpInFlight is how many come at once.
	dhcpInFlight = 50
)

// dhcpBench is a lab whose Kea has many reservations.
type dhcpBench struct {
	*lab.Lab
	machine *host.System
	subnet  string
}

// measureDHCP compares a reservation that becomes live with a bare reload of the file by Kea.
func measureDHCP(ctx context.Context, s settings) ([]goal, error) {
	n := dhcpReservations / s.shrink
	fmt.Println("one more DHCP reservation beside", n, "others; load", loadAverage())
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	l, err := lab.Up(ctx, lab.Options{Dir: dir, UI: "127.0.0.1:0", Programs: s.programs, AdminEmail: email, AdminPassword: secret})
	if err != nil {
		return nil, err
	}
	defer l.Down() //nolint:errcheck // the bench is over
	b := &dhcpBench{Lab: l}
	if b.machine, err = host.New(host.Options{Root: l.Path("/"), Units: l.Units()}); err != nil {
		return nil, err
	}
	if err := b.fill(ctx, n); err != nil {
		return nil, err
	}
	made := 0
	add := func() error {
		made++
		return b.reserve(ctx, made)
	}
	bare := func() error { return b.machine.LeaseServerAsk(ctx, host.LeaseServerReload, nil, nil) }
	for range 3 { // the first prepare their statements
		if err := errors.Join(add(), bare()); err != nil {
			return nil, err
		}
	}
	before, err := b.reloads()
	if err != nil {
		return nil, err
	}
	const rounds = 25
	times, err := inTurns(settings{rounds: rounds},
		func(time.Duration) (float64, error) { return seconds(add) },
		func(time.Duration) (float64, error) { return seconds(bare) })
	if err != nil {
		return nil, err
	}
	after, err := b.reloads()
	if err != nil {
		return nil, err
	}
	flight, err := b.inFlight(ctx, made)
	if err != nil {
		return nil, err
	}
	return []goal{
		{fmt.Sprintf("N3 DHCP reservation live / bare reload, %d there", n), times[0] / times[1], "x", 1.3, false, milliseconds(times...)},
		{"   reloads for each change, one after the other", float64(after-before-rounds) / rounds, "", 1, false, ""},
		{fmt.Sprintf("   reloads for %d changes in flight", dhcpInFlight), float64(flight), "", dhcpInFlight / 5, false, "one for those that wait while another is under way"},
	}, nil
}

// fill makes a subnet with its reservations, and turns the server on.
func (b *dhcpBench) fill(ctx context.Context, n int) error {
	var row struct{ Data struct{ ID string } }
	body := `{"interface":"lan0","cidr":"10.10.0.0/16","range_start":"10.10.240.0","range_end":"10.10.250.0"}`
	said, err := b.call(ctx, http.MethodPost, "/dhcp/subnets", body, 201)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(said, &row); err != nil {
		return err
	}
	b.subnet = row.Data.ID
	pool, err := pgxpool.New(ctx, private.URL(b.Path("/run/postgresql"), "gateway"))
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, `
		INSERT INTO dhcp_reservations (id, created_at, updated_at, subnet_id, mac, ip, hostname)
		SELECT gen_random_uuid(), now(), now(), $1, '02:00:00:00:' || lpad(to_hex(i / 256), 2, '0') || ':' || lpad(to_hex(i % 256), 2, '0'),
			'10.10.' || 1 + i / 250 || '.' || i % 250, 'host-' || i
		FROM generate_series(0, $2 - 1) i`, b.subnet, n)
	if err != nil {
		return err
	}
	_, err = b.call(ctx, http.MethodPut, "/dhcp/settings", `{"enabled":true}`, 200)
	return err
}

// reserve adds a reservation and waits until it is live.
func (b *dhcpBench) reserve(ctx context.Context, i int) error {
	body := fmt.Sprintf(`{"subnet_id":%q,"mac":"02:00:00:01:%02x:%02x","ip":"10.10.%d.%d","hostname":"made-%d"}`, b.subnet, i>>8, i&255, 200+i/250, i%250, i)
	_, err := b.call(ctx, http.MethodPost, "/dhcp/reservations", body, 201)
	return err
}

// call makes a change that has to be live.
func (b *dhcpBench) call(ctx context.Context, method, path, body string, status int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://gateway/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := b.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != status || !strings.Contains(res.Header.Get("Gateway-Apply"), "dhcp=live")) {
		err = fmt.Errorf("%s %s answers %d, %s: %s", method, path, res.StatusCode, res.Header.Get("Gateway-Apply"), said)
	}
	return said, err
}

// reloads is how often Kea has read its file anew.
func (b *dhcpBench) reloads() (int, error) {
	log, err := os.ReadFile(b.Log(host.Kea))
	return bytes.Count(log, []byte("DHCP4_DYNAMIC_RECONFIGURATION_SUCCESS")), err
}

// inFlight makes changes at once, and answers how many reloads they took.
func (b *dhcpBench) inFlight(ctx context.Context, made int) (int, error) {
	before, err := b.reloads()
	if err != nil {
		return 0, err
	}
	failures := make([]error, dhcpInFlight)
	var changes sync.WaitGroup
	for i := range dhcpInFlight {
		changes.Go(func() { failures[i] = b.reserve(ctx, made+1+i) })
	}
	changes.Wait()
	after, err := b.reloads()
	return after - before, errors.Join(append(failures, err)...)
}
