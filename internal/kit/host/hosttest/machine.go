// Package hosttest has a host.Machine in memory, for tests.
package hosttest

import (
	"context"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec/crowdsectest"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius/freeradiustest"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/haproxytest"
	"edge.internal/gateway/internal/kit/host/daemon/kea/keatest"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived/keepalivedtest"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/daemon/squid/squidtest"
	"edge.internal/gateway/internal/kit/host/daemon/unbound/unboundtest"
)

// Machine has its files, units and commands in memory. It is safe for concurrent use.
type Machine struct {
	*haproxytest.Proxy
	*unboundtest.Resolver
	*squidtest.Squid
	*keatest.Leases
	*freeradiustest.Radius
	*crowdsectest.Detection
	*keepalivedtest.Router

	mu        sync.Mutex
	files     map[host.Place][]byte
	installs  map[host.Place]int
	looks     map[host.Place]int
	amends    map[host.Place]int
	failures  map[host.Place][]error
	units     map[host.Unit]host.UnitState
	enabled   map[host.Unit]bool
	refusals  map[host.Unit]error
	verbs     map[verb]int
	onStart   map[host.Unit]startHook
	scripts   map[host.Command]Script
	runs      map[host.Command]int
	facts     host.Facts
	resources host.Resources
	// unmeasured is the error of Resources.
	unmeasured  error
	network     network
	tunnels     tunnels
	filter      filter
	changes     bus.Topic[host.Unit]
	ports       []host.PortUser
	logs        map[host.Log][]byte
	trims       map[host.Log]int
	hangs       bool
	broken      error
	packages    packages
	probe       ProbeScript
	connections []host.Connection
	counting    bool
	vendors     map[string]string
	journal     journal
	backups     backups
	jobs        jobs
}

type verb struct {
	name string
	unit host.Unit
}

var _ host.Machine = (*Machine)(nil)

// New returns a machine without files. Its units are installed and inactive; its commands succeed without output.
func New() *Machine {
	m := &Machine{
		files:    map[host.Place][]byte{},
		installs: map[host.Place]int{}, looks: map[host.Place]int{}, amends: map[host.Place]int{},
		failures: map[host.Place][]error{},
		units:    map[host.Unit]host.UnitState{},
		enabled:  map[host.Unit]bool{},
		refusals: map[host.Unit]error{},
		verbs:    map[verb]int{},
		scripts:  map[host.Command]Script{},
		runs:     map[host.Command]int{},
		logs:     map[host.Log][]byte{},
		trims:    map[host.Log]int{},
		filter:   filter{asked: map[FilterVerb]int{}},
		facts: host.Facts{
			Hostname: "gateway", OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0",
			MachineID: "0123456789abcdef0123456789abcdef", Journal: true,
		},
		resources: host.Resources{
			NumCPUs: 2, MemoryTotal: 4 << 30, MemoryAvailable: 3 << 30, DiskTotal: 32 << 30, DiskFree: 16 << 30,
		},
		network: newNetwork(),
		onStart: map[host.Unit]startHook{},
	}
	m.scripts[nftables.Load] = m.Load
	on := basis{m}
	m.Proxy, m.Resolver, m.Squid, m.Leases = haproxytest.New(on), unboundtest.New(on), squidtest.New(on), keatest.New(on)
	m.Radius, m.Detection, m.Router = freeradiustest.New(on), crowdsectest.New(on), keepalivedtest.New()
	for _, spec := range host.UnitSpecs() {
		m.units[spec.Unit] = host.UnitState{Unit: spec.Unit, Installed: true, Active: "inactive"}
	}
	return m
}

// basis implements daemontest.Machine.
type basis struct{ *Machine }

type startHook func(verb string, read func(daemon.Place) []byte)

func (b basis) Since(u host.Unit) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.units[u].Since, b.units[u].Active == "active"
}

func (b basis) Breaks() error { return b.breaks() }

func (b basis) Answers(ctx context.Context) error { return b.answers(ctx) }

func (b basis) OnStart(u host.Unit, started func(verb string, read func(daemon.Place) []byte)) {
	b.onStart[u] = started
}

// Decision spares tests the import of crowdsectest.
type Decision = crowdsectest.Decision

func (m *Machine) Facts() host.Facts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.facts
}

func (m *Machine) Resources() (host.Resources, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resources, m.unmeasured
}

func (m *Machine) PortUsers(port int) (list []host.PortUser, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.ports {
		if u.Port == port {
			list = append(list, u)
		}
	}
	return list, nil
}

func (m *Machine) SetPortUsers(users ...host.PortUser) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ports = users
}

func (m *Machine) SetFacts(f host.Facts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.facts = f
}

// FailResources makes Resources fail; nil ends that.
func (m *Machine) FailResources(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unmeasured = err
}

func (m *Machine) SetResources(r host.Resources) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resources = r
}
