package hosttest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
)

// filter is the packet filter of a machine in memory.
type filter struct {
	state    host.FilterState
	digest   string
	counters host.FilterCounters
	err      error
	logErr   error
	sink     func([]host.LoggedPacket, uint64) // of who reads the log; nil when nobody does
	changed  func()                            // hears of changes; may be nil
	asked    map[FilterVerb]int
}

// FilterVerb is one verb of host.Filter.
type FilterVerb string

// The verbs that are counted.
const (
	FilterState    FilterVerb = "state"
	FilterDigest   FilterVerb = "digest"
	FilterCounters FilterVerb = "counters"
	PacketLog      FilterVerb = "log"
)

// errNoNetlink is why a machine in memory has nft do what the kernel is told directly elsewhere.
var errNoNetlink = errors.New("there is no netlink in memory")

func (m *Machine) FilterLoad(context.Context, host.File) (uint32, error) { return 0, errNoNetlink }

func (m *Machine) FilterChange(context.Context, nft.Change) ([]host.FilterCounter, error) {
	return nil, errNoNetlink
}

// Load is what nft does with a table: from then on it is there.
func (m *Machine) Load(ctx context.Context, in host.Input) (host.Output, error) {
	m.mu.Lock()
	defer m.filterChanged()
	defer m.mu.Unlock()
	for _, f := range in.Staged {
		m.filter.state.Present = m.filter.state.Present || strings.Contains(string(f.Content), "table inet gateway {")
		m.filter.state.Generation++
	}
	return host.Output{}, ctx.Err()
}

func (m *Machine) FilterState(ctx context.Context) (host.FilterState, error) {
	if err := m.breaks(); err != nil {
		return host.FilterState{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.asked[FilterState]++
	return m.filter.state, errors.Join(m.filter.err, ctx.Err())
}

func (m *Machine) FilterDigest(ctx context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.asked[FilterDigest]++
	return m.filter.digest, errors.Join(m.filter.err, ctx.Err())
}

// FilterDigestOf answers that the table is as it should be.
func (m *Machine) FilterDigestOf(ctx context.Context, _ host.File) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.filter.digest, errors.Join(m.filter.err, ctx.Err())
}

func (m *Machine) FilterChanges(ctx context.Context, changed func()) error {
	m.mu.Lock()
	m.filter.changed = changed
	m.mu.Unlock()
	changed()
	<-ctx.Done()
	return ctx.Err()
}

// filterChanged tells who listens that the packet filter has changed.
func (m *Machine) filterChanged() {
	m.mu.Lock()
	changed := m.filter.changed
	m.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (m *Machine) FilterCounters(ctx context.Context) (host.FilterCounters, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.asked[FilterCounters]++
	counters := m.filter.counters
	counters.List = slices.Clone(counters.List)
	return counters, errors.Join(m.filter.err, ctx.Err())
}

// PacketLog delivers what LogPackets is given. As on a real machine, only one reader has the log at a time.
func (m *Machine) PacketLog(ctx context.Context, sink func([]host.LoggedPacket, uint64)) error {
	if err := m.openLog(sink); err != nil {
		return err
	}
	sink(nil, 0)
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.sink = nil
	return ctx.Err()
}

func (m *Machine) openLog(sink func([]host.LoggedPacket, uint64)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.asked[PacketLog]++
	if m.filter.logErr != nil {
		return m.filter.logErr
	}
	if m.filter.sink != nil {
		return errors.New("another program reads packet log group 0")
	}
	m.filter.sink = sink
	return nil
}

// LogPackets has a rule log packets, and tells whether somebody reads the log.
func (m *Machine) LogPackets(packets ...host.LoggedPacket) bool {
	m.mu.Lock()
	sink := m.filter.sink
	m.mu.Unlock()
	if sink == nil {
		return false
	}
	sink(packets, 0)
	return true
}

// SetFilter sets what FilterState and FilterDigest answer.
func (m *Machine) SetFilter(state host.FilterState, digest string) {
	m.mu.Lock()
	defer m.filterChanged()
	defer m.mu.Unlock()
	m.filter.state, m.filter.digest = state, digest
}

// SetCounters sets what FilterCounters answers: the counters of the table with that name.
func (m *Machine) SetCounters(table string, counters ...host.FilterCounter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.counters = host.FilterCounters{Table: table, List: counters}
}

// FailFilter makes the state, digest and counters of the packet filter fail; nil makes them well again.
func (m *Machine) FailFilter(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.err = err
}

// FailPacketLog makes the packet log impossible to open; nil makes it well again.
func (m *Machine) FailPacketLog(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.logErr = err
}

// Asked counts the calls of a verb of the packet filter.
func (m *Machine) Asked(v FilterVerb) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.filter.asked[v]
}
