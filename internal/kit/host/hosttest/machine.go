// Package hosttest is a machine in memory, for the tests of rooms and kit.
package hosttest

import (
	"sync"

	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/host"
)

// Machine is a host.Machine whose files, units and commands are in memory. All its methods may be called at once.
type Machine struct {
	mu        sync.Mutex
	files     map[host.Place][]byte
	installs  map[host.Place]int
	amends    map[host.Place]int
	removes   map[host.Place]int
	failures  map[host.Place][]error
	units     map[host.Unit]host.UnitState
	enabled   map[host.Unit]bool
	refusals  map[host.Unit]error
	verbs     map[verb]int
	scripts   map[host.Command]Script
	runs      map[host.Command]int
	facts     host.Facts
	resources host.Resources
	// unmeasured is why the resources cannot be read.
	unmeasured  error
	network     network
	tunnels     tunnels
	filter      filter
	proxy       proxy
	squid       squid
	changes     bus.Topic[host.Unit]
	ports       []host.PortUser
	leases      leaseServer
	resolver    resolver
	radius      radius
	detection   detection
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
	router      chan host.RouterState
}

type verb struct {
	name string
	unit host.Unit
}

var _ host.Machine = (*Machine)(nil)

// New returns a machine without files, whose units are installed and inactive, and whose commands end well and say nothing.
func New() *Machine {
	m := &Machine{
		files:    map[host.Place][]byte{},
		installs: map[host.Place]int{}, amends: map[host.Place]int{},
		removes:  map[host.Place]int{},
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
		router:  make(chan host.RouterState, 16),
	}
	m.scripts[host.NftLoad] = m.Load
	m.detect()
	for _, spec := range host.UnitSpecs() {
		m.units[spec.Unit] = host.UnitState{Unit: spec.Unit, Installed: true, Active: "inactive"}
	}
	return m
}

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

// PortUsers are those of SetPortUsers.
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

// SetPortUsers sets who uses the machine's ports.
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

// FailResources makes the load of the machine unreadable; nil makes it well again.
func (m *Machine) FailResources(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unmeasured = err
}

// SetResources sets the load of the machine.
func (m *Machine) SetResources(r host.Resources) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resources = r
}
