// Package change reverts changes of a whole gateway: unconfirmed ones that cut an operator on the LAN off, and random ones.
package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

// within is the shortest time for a confirmation.
const within = 10 * time.Second

type fields = map[string]any

// site is a lab with an operator on its LAN, who opens one connection after the other.
type site struct {
	*labtest.Lab
	operator *labtest.Browser
	lan      string // the id of its interface
}

func up(t *testing.T) *site {
	t.Helper()
	s := &site{Lab: labtest.UpAsAdmin(t, lab.Options{})}
	s.operator = labtest.NewBrowser(t, "https://10.10.0.1:3443", func(ctx context.Context, network, address string) (net.Conn, error) {
		return s.dial(ctx, address)
	})
	s.operator.Login(t)
	var links []struct{ ID, Name string }
	s.Must(t, http.MethodGet, "/network-interfaces", nil, 200, &links)
	for _, l := range links {
		if l.Name == "lan0" {
			s.lan = l.ID
		}
	}
	s.WaitSettled(t)
	return s
}

func (s *site) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	inside := s.Within(lab.Lan, func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return nil
	})
	if inside != nil {
		return nil, inside
	}
	return conn, err
}

// reach returns an error if the operator cannot connect to the address.
func (s *site) reach(t *testing.T, address string) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second/2) // short, so that the next attempt follows soon after the path is open
	defer cancel()
	conn, err := s.dial(ctx, address)
	if err == nil {
		conn.Close()
	}
	return err
}

// state is what the gateway runs with: its files, and what the kernel has.
func (s *site) state(t *testing.T) string {
	t.Helper()
	return labtest.Running(func(argv ...string) string { return s.Run(t, lab.Gateway, argv...) })
}

// same waits until everything is as it was: the kernel takes a moment to check that no other machine has an IPv6 address.
func (s *site) same(t *testing.T, before string) {
	t.Helper()
	waittest.UntilNil(t, "it is as it was", func() error {
		if after := s.state(t); after != before {
			return fmt.Errorf("\n%s", udiff.Unified("before", "after", before, after))
		}
		return nil
	})
}

// try makes a change from the LAN that must be confirmed. The operator may never get the answer: the change set is looked up from inside.
func (s *site) try(t *testing.T, method, path string, body fields) (id string, by time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	a, err := s.operator.Do(ctx, method, path, body, httpd.ConfirmWithinHeader, fmt.Sprint(within.Seconds()))
	if err == nil && a.Status >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	var waiting []struct {
		ID        string    `json:"id"`
		ConfirmBy time.Time `json:"confirm_by"`
	}
	s.Must(t, http.MethodGet, "/change-sets/waiting", nil, 200, &waiting)
	if len(waiting) != 1 {
		t.Fatalf("%+v", waiting)
	}
	return waiting[0].ID, waiting[0].ConfirmBy
}

// takenBack returns an error with the actual state unless a change set was taken back.
func (s *site) takenBack(t *testing.T, id string) error {
	t.Helper()
	var set struct{ State string }
	a, err := s.Do(t.Context(), http.MethodGet, "/change-sets/"+id, nil)
	if err != nil {
		return err
	}
	if a.Status != 200 || json.Unmarshal(a.Data, &set) != nil || set.State != "taken_back" {
		return fmt.Errorf("%d %s", a.Status, a.Body)
	}
	return nil
}

// promised is how soon after its deadline a change is reverted, on an idle machine.
const promised = 2 * time.Second

// punctual complains about a revert that began before the deadline or ended late, by the gateway's own clock. Only a long run checks
// the guaranteed time.
func (s *site) punctual(t *testing.T, id string) {
	t.Helper()
	type record struct {
		CreatedAt  time.Time `json:"created_at"`
		ConfirmBy  time.Time `json:"confirm_by"`
		RevertedBy string    `json:"reverted_by"`
		Components []string
		Report     []struct {
			Component  string
			EndedAt    time.Time `json:"ended_at"`
			DurationMS int64     `json:"duration_ms"`
			State      string
		}
	}
	var change, back record
	s.Must(t, http.MethodGet, "/change-sets/"+id, nil, 200, &change)
	waittest.UntilNil(t, "the report of the take-back", func() error {
		back = record{}
		s.Must(t, http.MethodGet, "/change-sets/"+change.RevertedBy, nil, 200, &back)
		for _, c := range back.Report {
			if c.State != "live" {
				return fmt.Errorf("%+v", c)
			}
		}
		if len(back.Report) == 0 {
			return errors.New("nobody has told how it went")
		}
		return nil
	})
	allowed := promised
	if !longtest.On {
		allowed *= labtest.Slow
	}
	stored := back.CreatedAt.Sub(change.ConfirmBy)
	if stored < 0 {
		t.Errorf("it was taken back %s before its time", -stored)
	}
	last := stored
	for _, c := range back.Report {
		last = max(last, c.EndedAt.Sub(change.ConfirmBy))
		t.Logf("%s took %d ms", c.Component, c.DurationMS)
	}
	if t.Logf("stored %s after the deadline, running after %s", stored, last); last > allowed {
		t.Errorf("it was gone %s after the deadline; %s are allowed", last, allowed)
	}
}

// changes are what cuts an operator off. No rule of the packet filter can close the console: what one closes is the way through.
func (s *site) changes(t *testing.T) []struct {
	name, address, method, path string
	body                        fields
} {
	t.Helper()
	var addresses []struct{ ID, Address string }
	s.Must(t, http.MethodGet, "/ip-addresses", nil, 200, &addresses)
	address := ""
	for _, a := range addresses {
		if a.Address == "10.10.0.1" {
			address = a.ID
		}
	}
	var tunnel struct{ ID string }
	s.Must(t, http.MethodPost, "/tunnel/interfaces", fields{"name": "wg-lockout", "address_cidr": "10.88.0.1/24"}, 201, &tunnel)
	s.Must(t, http.MethodPost, "/system/ipv6", fields{"enabled": true}, 200, nil)
	const console = "10.10.0.1:3443"
	return []struct {
		name, address, method, path string
		body                        fields
	}{
		{"Rule", "198.51.100.2:8080", http.MethodPost, "/firewall/rules", fields{"name": "closed", "src_zone": "lan", "dst_zone": "wan", "action": "drop", "priority": 1}},
		{"NAT", "10.10.0.1:443", http.MethodPost, "/nat-rules", fields{"name": "taken", "kind": "dnat", "in_zone": "lan", "out_zone": "any", "protocol": "tcp", "dst_port": 443, "target_address": "10.10.0.77", "takes_management_ports": true}},
		{"Interface", console, http.MethodPut, "/network-interfaces/" + s.lan, fields{"active": false}},
		{"Address", console, http.MethodPut, "/ip-addresses/" + address, fields{"address": "10.10.7.1"}},
		{"Route", console, http.MethodPost, "/routes", fields{"destination": "10.10.0.2/32", "gateway": "198.51.100.2"}},
		{"Tunnel", console, http.MethodPost, "/tunnel/interfaces/" + tunnel.ID + "/peers", fields{"name": "greedy", "allowed_ips": "10.88.0.2/32, 10.10.0.2/32"}},
		{"IPv6", "[fd00:10::1]:3443", http.MethodPost, "/system/ipv6", fields{"enabled": false}},
	}
}

func TestLockout(t *testing.T) {
	s := up(t)
	var l net.Listener
	if err := s.Within(lab.Wan, func() (err error) { l, err = net.Listen("tcp", "198.51.100.2:8080"); return err }); err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(l, http.NotFoundHandler()) }()
	t.Cleanup(func() { l.Close() })

	list := s.changes(t)
	s.Must(t, http.MethodPost, "/system/render-configs", nil, 200, nil) // some files follow what the kernel has, a moment later
	for _, c := range longtest.Some(t, 2, list) {
		t.Run(c.name, func(t *testing.T) {
			s.WaitSettled(t)
			waittest.UntilNil(t, "the way in", func() error { return s.reach(t, c.address) })
			before := s.state(t)
			id, by := s.try(t, c.method, c.path, c.body)
			if s.reach(t, c.address) == nil && time.Now().Before(by) {
				t.Fatalf("%s is still reached\n%s", c.address, s.state(t))
			}
			waittest.Within(t, labtest.Slow*(within+5*time.Second), "the way back", func() error { return s.reach(t, c.address) })
			late := time.Since(by).Round(time.Millisecond)
			t.Logf("reached again %s after the deadline", late)
			if late < 0 || longtest.On && late > promised {
				t.Errorf("it is reached again %s after the deadline", late)
			}
			waittest.UntilNil(t, "the end", func() error { return s.takenBack(t, id) })
			s.punctual(t, id)
			s.same(t, before)
		})
	}
	type death struct {
		died   host.Unit
		change int
	}
	var deaths []death
	for i := range list {
		deaths = append(deaths, death{host.API, i}, death{lab.PostgreSQL, i})
	}
	for _, d := range longtest.Some(t, 1, deaths) {
		c := list[d.change]
		t.Run("Killed/"+string(d.died)+"/"+c.name, func(t *testing.T) {
			s.WaitSettled(t)
			before := s.state(t)
			id, _ := s.try(t, c.method, c.path, c.body)
			if err := s.Signal(t.Context(), d.died, lab.Kill); err != nil {
				t.Fatal(err)
			}
			s.back(t, id, c.address, before)
		})
	}
	t.Run("DatabaseIsAway", func(t *testing.T) {
		s.WaitSettled(t)
		before := s.state(t)
		id, by := s.try(t, list[2].method, list[2].path, list[2].body)
		if err := s.Units().Stop(t.Context(), lab.PostgreSQL); err != nil {
			t.Fatal(err)
		}
		waittest.Within(t, labtest.Slow*(within+10*time.Second), "the way back", func() error { return s.reach(t, list[2].address) })
		t.Logf("reached again %s after the deadline", time.Since(by).Round(time.Millisecond))
		s.same(t, before)
		if err := s.Units().Start(t.Context(), lab.PostgreSQL); err != nil {
			t.Fatal(err)
		}
		s.back(t, id, list[2].address, before)
	})
}

// back waits until a change is reverted, the address can be reached and everything is as it was.
func (s *site) back(t *testing.T, id, address, before string) {
	t.Helper()
	waittest.Within(t, labtest.Slow*(within+10*time.Second), "the end", func() error { return s.takenBack(t, id) })
	waittest.UntilNil(t, "the way back", func() error { return s.reach(t, address) })
	s.WaitSettled(t)
	s.same(t, before)
}
