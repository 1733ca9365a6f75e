// Package crowdsectest is an in-memory CrowdSec with its firewall bouncer.
package crowdsectest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/daemontest"
)

// Detection answers while its unit is active. Its accounts outlive a stop.
type Detection struct {
	on        daemontest.Machine
	mu        sync.Mutex
	machines  map[string]string // name to password
	bouncers  map[string]string // name to key
	made      int               // number of secrets issued
	decisions []Decision
	alerts    []json.RawMessage
	asked     map[crowdsec.Verb]int
	spared    []netip.Addr
	tables    bool      // as DetectionSpare leaves them
	flushed   time.Time // when FlushDetectionTables removed them
}

// Decision is a ban, or another decision, of the in-memory CrowdSec.
type Decision struct {
	ID       int64  `json:"id"`
	Origin   string `json:"origin"`
	Type     string `json:"type"`
	Scope    string `json:"scope"`
	Value    string `json:"value"`
	Duration string `json:"duration"`
	Scenario string `json:"scenario"`
}

// New returns the CrowdSec of a machine in memory, and scripts cscli's commands.
func New(on daemontest.Machine) *Detection {
	m := &Detection{on: on, machines: map[string]string{}, bouncers: map[string]string{}, asked: map[crowdsec.Verb]int{}}
	on.Script(crowdsec.MachineAdd, func(_ context.Context, in daemon.Input) (daemon.Output, error) {
		password := m.account(m.machines, in.Args[0])
		return daemon.Output{Stdout: fmt.Sprintf("url: http://127.0.0.1:8080\nlogin: %s\npassword: %s\n", in.Args[0], password)}, nil
	})
	on.Script(crowdsec.BouncerAdd, func(_ context.Context, in daemon.Input) (daemon.Output, error) {
		if slices.Contains(m.DetectionBouncers(), in.Args[0]) {
			return daemon.Output{Stderr: `{"level":"fatal","msg":"unable to create bouncer: bouncer ` + in.Args[0] + ` already exists"}`, ExitCode: 1}, nil
		}
		return daemon.Output{Stdout: `"` + m.account(m.bouncers, in.Args[0]) + `"`}, nil
	})
	on.Script(crowdsec.BouncerRemove, func(_ context.Context, in daemon.Input) (daemon.Output, error) {
		if !slices.Contains(m.DetectionBouncers(), in.Args[0]) {
			return daemon.Output{Stderr: `{"level":"fatal","msg":"unable to delete bouncer: bouncer doesn't exist"}`, ExitCode: 1}, nil
		}
		m.ForgetDetectionAccount(in.Args[0])
		return daemon.Output{}, nil
	})
	on.Script(crowdsec.Bouncers, func(context.Context, daemon.Input) (daemon.Output, error) {
		type row struct {
			Name      string    `json:"name"`
			CreatedAt time.Time `json:"created_at"`
			APIKey    string    `json:"api_key"`
			LastPull  time.Time `json:"last_pull"`
		}
		var rows []row
		for _, name := range m.DetectionBouncers() {
			rows = append(rows, row{Name: name, CreatedAt: time.Unix(1800000000, 0).UTC(), APIKey: "a hash", LastPull: time.Unix(1800000000, 0).UTC()})
		}
		b, err := json.Marshal(rows)
		return daemon.Output{Stdout: string(b)}, err
	})
	return m
}

// account creates an account, or issues another secret for it.
func (m *Detection) account(accounts map[string]string, name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made++
	accounts[name] = fmt.Sprintf("made-%d", m.made)
	return accounts[name]
}

func (m *Detection) DetectionBouncers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := []string{}
	for name := range m.bouncers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ForgetDetectionAccount deletes the machine and the bouncer with this name.
func (m *Detection) ForgetDetectionAccount(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.machines, name)
	delete(m.bouncers, name)
}

// Decide adds a decision, as a scenario would.
func (m *Detection) Decide(d Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decisions = append(m.decisions, d)
}

func (m *Detection) Decisions() []Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.decisions)
}

// SetDetectionAlerts sets the list of alerts, newest first.
func (m *Detection) SetDetectionAlerts(alerts ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alerts = nil
	for _, a := range alerts {
		m.alerts = append(m.alerts, json.RawMessage(a))
	}
}

func (m *Detection) DetectionAsked(v crowdsec.Verb) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[v]
}

// DetectionSpare stores the addresses. If the tables were flushed, the bouncer makes new ones only at its next start.
func (m *Detection) DetectionSpare(_ context.Context, addresses []netip.Addr) error {
	since, _ := m.on.Since(crowdsec.Bouncer)
	m.mu.Lock()
	defer m.mu.Unlock()
	if since.Before(m.flushed) {
		return errNoTables
	}
	m.spared, m.tables = slices.Clone(addresses), true
	return nil
}

// DetectionDropped returns the addresses that are banned and not spared. The in-memory bouncer learns of a ban immediately.
func (m *Detection) DetectionDropped(_ context.Context, of []netip.Addr) (dropped []netip.Addr, err error) {
	_, runs := m.on.Since(crowdsec.Bouncer)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !runs || !m.tables {
		return nil, errNoTables
	}
	for _, d := range m.decisions {
		if a, err := netip.ParseAddr(d.Value); err == nil && slices.Contains(of, a) && !slices.Contains(m.spared, a) {
			dropped = append(dropped, a)
		}
	}
	return dropped, nil
}

var errNoTables = fmt.Errorf("the firewall bouncer's tables: %w", daemon.ErrNotRunning)

// FlushDetectionTables removes the tables without the bouncer noticing.
func (m *Detection) FlushDetectionTables() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spared, m.tables, m.flushed = nil, false, time.Now()
}

// DetectionSpared returns the addresses of the last DetectionSpare.
func (m *Detection) DetectionSpared() []netip.Addr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.spared)
}

func (m *Detection) DetectionAsk(ctx context.Context, q crowdsec.Question) (json.RawMessage, error) {
	if _, _, err := q.Request(); err != nil {
		return nil, err
	}
	if err := m.on.Answers(ctx); err != nil {
		return nil, err
	}
	if err := daemontest.Runs(m.on, crowdsec.Unit, "CrowdSec"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[q.Verb]++
	answer, err := m.respond(q)
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// respond executes a request. In this CrowdSec, a machine's token is its password.
func (m *Detection) respond(q crowdsec.Question) (any, error) {
	knows := func(accounts map[string]string, secret string) bool {
		for _, s := range accounts {
			if s == secret {
				return true
			}
		}
		return false
	}
	switch q.Verb {
	case crowdsec.Login:
		var login struct {
			Name     string `json:"machine_id"`
			Password string `json:"password"`
		}
		if err := json.Unmarshal(q.Body, &login); err != nil {
			return nil, err
		}
		if password, known := m.machines[login.Name]; !known || password != login.Password {
			return nil, &crowdsec.Refused{Status: http.StatusUnauthorized, Text: "incorrect Username or Password"}
		}
		return map[string]any{"code": 200, "token": login.Password, "expire": time.Now().Add(time.Hour)}, nil
	case crowdsec.Decisions:
		if !knows(m.bouncers, q.Key) {
			return nil, &crowdsec.Refused{Status: http.StatusForbidden, Text: "access forbidden"}
		}
		return slices.DeleteFunc(slices.Clone(m.decisions), func(x Decision) bool { return !x.about(q) }), nil
	}
	if !knows(m.machines, q.Token) {
		return nil, &crowdsec.Refused{Status: http.StatusUnauthorized, Text: "cookie token is empty"}
	}
	switch q.Verb {
	case crowdsec.DecisionRemove:
		n := len(m.decisions)
		m.decisions = slices.DeleteFunc(m.decisions, func(x Decision) bool { return x.ID == q.ID })
		if len(m.decisions) == n {
			return nil, &crowdsec.Refused{Status: http.StatusInternalServerError, Text: fmt.Sprintf("decision with id '%d' doesn't exist: unable to delete", q.ID)}
		}
		return map[string]string{"nbDeleted": "1"}, nil
	case crowdsec.AlertAdd:
		var alerts []struct {
			Decisions []Decision `json:"decisions"`
		}
		if err := json.Unmarshal(q.Body, &alerts); err != nil {
			return nil, err
		}
		for _, a := range alerts {
			for _, x := range a.Decisions {
				x.ID = int64(len(m.decisions) + 1)
				m.decisions = append(m.decisions, x)
			}
		}
		return []string{"1"}, nil
	case crowdsec.Alerts:
		return m.alerts, nil
	case crowdsec.Alert:
		for _, a := range m.alerts {
			if strings.Contains(string(a), fmt.Sprintf(`"id":%d,`, q.ID)) {
				return a, nil
			}
		}
		return nil, &crowdsec.Refused{Status: http.StatusNotFound, Text: "object not found"}
	}
	return nil, nil
}

// about reports whether a request selects a decision.
func (x Decision) about(q crowdsec.Question) bool {
	net, err := netip.ParsePrefix(x.Value)
	if ip, addr := netip.ParseAddr(x.Value); addr == nil {
		net, err = netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	if err != nil {
		return len(q.Query) == 0
	}
	if text := q.Query.Get("ip"); text != "" {
		ip, err := netip.ParseAddr(text)
		return err == nil && net.Contains(ip)
	}
	if text := q.Query.Get("range"); text != "" {
		in, err := netip.ParsePrefix(text)
		return err == nil && in.Bits() <= net.Bits() && in.Contains(net.Addr())
	}
	return true
}
