package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// detection is the CrowdSec in memory. Its accounts are there always, and it answers while its unit is active.
type detection struct {
	machines  map[string]string // passwords by name
	bouncers  map[string]string // keys by name
	made      int               // accounts so far
	decisions []Decision
	alerts    []json.RawMessage
	asked     map[host.DetectionVerb]int
	spared    []netip.Addr
	tables    bool      // as DetectionSpare leaves them
	flushed   time.Time // when they were removed behind the bouncer's back
}

// Decision is a decision of the CrowdSec in memory.
type Decision struct {
	ID       int64  `json:"id"`
	Origin   string `json:"origin"`
	Type     string `json:"type"`
	Scope    string `json:"scope"`
	Value    string `json:"value"`
	Duration string `json:"duration"`
	Scenario string `json:"scenario"`
}

// detect gives CrowdSec's own tool its scripts.
func (m *Machine) detect() {
	m.detection = detection{machines: map[string]string{}, bouncers: map[string]string{}, asked: map[host.DetectionVerb]int{}}
	m.scripts[host.DetectionMachineAdd] = func(_ context.Context, in host.Input) (host.Output, error) {
		password := m.account(m.detection.machines, in.Args[0])
		return host.Output{Stdout: fmt.Sprintf("url: http://127.0.0.1:8080\nlogin: %s\npassword: %s\n", in.Args[0], password)}, nil
	}
	m.scripts[host.DetectionBouncerAdd] = func(_ context.Context, in host.Input) (host.Output, error) {
		if slices.Contains(m.DetectionBouncers(), in.Args[0]) {
			return host.Output{Stderr: `{"level":"fatal","msg":"unable to create bouncer: bouncer ` + in.Args[0] + ` already exists"}`, ExitCode: 1}, nil
		}
		return host.Output{Stdout: `"` + m.account(m.detection.bouncers, in.Args[0]) + `"`}, nil
	}
	m.scripts[host.DetectionBouncerRemove] = func(_ context.Context, in host.Input) (host.Output, error) {
		if !slices.Contains(m.DetectionBouncers(), in.Args[0]) {
			return host.Output{Stderr: `{"level":"fatal","msg":"unable to delete bouncer: bouncer doesn't exist"}`, ExitCode: 1}, nil
		}
		m.ForgetDetectionAccount(in.Args[0])
		return host.Output{}, nil
	}
	m.scripts[host.DetectionBouncers] = func(context.Context, host.Input) (host.Output, error) {
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
		return host.Output{Stdout: string(b)}, err
	}
}

// account makes an account, or another secret for it.
func (m *Machine) account(accounts map[string]string, name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.detection.made++
	accounts[name] = fmt.Sprintf("made-%d", m.detection.made)
	return accounts[name]
}

// DetectionBouncers are the names of the bouncers that CrowdSec in memory knows.
func (m *Machine) DetectionBouncers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := []string{}
	for name := range m.detection.bouncers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ForgetDetectionAccount makes CrowdSec forget a machine and a bouncer.
func (m *Machine) ForgetDetectionAccount(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.detection.machines, name)
	delete(m.detection.bouncers, name)
}

// Decide adds a decision, as a scenario would.
func (m *Machine) Decide(d Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.detection.decisions = append(m.detection.decisions, d)
}

// Decisions are those of the CrowdSec in memory.
func (m *Machine) Decisions() []Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.detection.decisions)
}

// SetDetectionAlerts sets what CrowdSec has found, newest first.
func (m *Machine) SetDetectionAlerts(alerts ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.detection.alerts = nil
	for _, a := range alerts {
		m.detection.alerts = append(m.detection.alerts, json.RawMessage(a))
	}
}

// DetectionAsked counts the questions of a kind.
func (m *Machine) DetectionAsked(v host.DetectionVerb) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.detection.asked[v]
}

// DetectionSpare remembers the addresses. A bouncer whose tables were removed makes none before it is started again.
func (m *Machine) DetectionSpare(_ context.Context, addresses []netip.Addr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.units[host.Bouncer].Since.Before(m.detection.flushed) {
		return errNoTables
	}
	m.detection.spared, m.detection.tables = slices.Clone(addresses), true
	return nil
}

// DetectionDropped are those who are banned and not spared: the bouncer in memory hears of a ban at once.
func (m *Machine) DetectionDropped(_ context.Context, of []netip.Addr) (dropped []netip.Addr, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.units[host.Bouncer].Active != "active" || !m.detection.tables {
		return nil, errNoTables
	}
	for _, d := range m.detection.decisions {
		if a, err := netip.ParseAddr(d.Value); err == nil && slices.Contains(of, a) && !slices.Contains(m.detection.spared, a) {
			dropped = append(dropped, a)
		}
	}
	return dropped, nil
}

var errNoTables = fmt.Errorf("the firewall bouncer's tables: %w", host.ErrNotRunning)

// FlushDetectionTables removes the bouncer's tables behind its back.
func (m *Machine) FlushDetectionTables() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.detection.spared, m.detection.tables, m.detection.flushed = nil, false, time.Now()
}

// DetectionSpared are the addresses that the bouncer lets pass.
func (m *Machine) DetectionSpared() []netip.Addr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.detection.spared)
}

// DetectionAsk answers as CrowdSec does.
func (m *Machine) DetectionAsk(ctx context.Context, q host.DetectionQuestion) (json.RawMessage, error) {
	if _, _, err := q.Request(); err != nil {
		return nil, err
	}
	if err := m.answers(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.units[host.CrowdSec].Active != "active" {
		return nil, fmt.Errorf("CrowdSec: %w", host.ErrNotRunning)
	}
	m.detection.asked[q.Verb]++
	answer, err := m.detection.says(q)
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// says answers one question. A token is the password of its machine.
func (d *detection) says(q host.DetectionQuestion) (any, error) {
	knows := func(accounts map[string]string, secret string) bool {
		for _, s := range accounts {
			if s == secret {
				return true
			}
		}
		return false
	}
	switch q.Verb {
	case host.DetectionLogin:
		var login struct {
			Name     string `json:"machine_id"`
			Password string `json:"password"`
		}
		if err := json.Unmarshal(q.Body, &login); err != nil {
			return nil, err
		}
		if password, known := d.machines[login.Name]; !known || password != login.Password {
			return nil, &host.DetectionRefused{Status: http.StatusUnauthorized, Text: "incorrect Username or Password"}
		}
		return map[string]any{"code": 200, "token": login.Password, "expire": time.Now().Add(time.Hour)}, nil
	case host.DetectionDecisions:
		if !knows(d.bouncers, q.Key) {
			return nil, &host.DetectionRefused{Status: http.StatusForbidden, Text: "access forbidden"}
		}
		return slices.DeleteFunc(slices.Clone(d.decisions), func(x Decision) bool { return !x.about(q) }), nil
	}
	if !knows(d.machines, q.Token) {
		return nil, &host.DetectionRefused{Status: http.StatusUnauthorized, Text: "cookie token is empty"}
	}
	switch q.Verb {
	case host.DetectionDecisionRemove:
		n := len(d.decisions)
		d.decisions = slices.DeleteFunc(d.decisions, func(x Decision) bool { return x.ID == q.ID })
		if len(d.decisions) == n {
			return nil, &host.DetectionRefused{Status: http.StatusInternalServerError, Text: fmt.Sprintf("decision with id '%d' doesn't exist: unable to delete", q.ID)}
		}
		return map[string]string{"nbDeleted": "1"}, nil
	case host.DetectionAlertAdd:
		var alerts []struct {
			Decisions []Decision `json:"decisions"`
		}
		if err := json.Unmarshal(q.Body, &alerts); err != nil {
			return nil, err
		}
		for _, a := range alerts {
			for _, x := range a.Decisions {
				x.ID = int64(len(d.decisions) + 1)
				d.decisions = append(d.decisions, x)
			}
		}
		return []string{"1"}, nil
	case host.DetectionAlerts:
		return d.alerts, nil
	case host.DetectionAlert:
		for _, a := range d.alerts {
			if strings.Contains(string(a), fmt.Sprintf(`"id":%d,`, q.ID)) {
				return a, nil
			}
		}
		return nil, &host.DetectionRefused{Status: http.StatusNotFound, Text: "object not found"}
	}
	return nil, nil
}

// about tells whether a decision is one that a question asks for.
func (x Decision) about(q host.DetectionQuestion) bool {
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
