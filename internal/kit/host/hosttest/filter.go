package hosttest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
)

type filter struct {
	state    host.FilterState
	digest   string
	counters host.FilterCounters
	err      error
	logErr   error
	sink     func([]host.LoggedPacket, uint64) // of the reader of the log; nil without one
	changed  func()                            // called on changes; may be nil
	asked    map[FilterVerb]int
}

// FilterVerb names a method of host.Filter whose calls are counted.
type FilterVerb string

// Verbs for Asked.
const (
	FilterState    FilterVerb = "state"
	FilterDigest   FilterVerb = "digest"
	FilterCounters FilterVerb = "counters"
	PacketLog      FilterVerb = "log"
)

// errNoNetlink makes the caller fall back to nft, whose commands a test can script.
var errNoNetlink = errors.New("the machine in memory has no netlink")

func (m *Machine) FilterLoad(context.Context, host.File) (uint32, error) { return 0, errNoNetlink }

func (m *Machine) FilterChange(context.Context, nft.Change) ([]host.FilterCounter, error) {
	return nil, errNoNetlink
}

// Load is the script of nft.load: the table exists from then on.
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

// FilterDigestOf returns the current digest, as if the table were as it should be.
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

// PacketLog delivers the packets of LogPackets. As on a real machine, it has only one reader at a time.
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

// LogPackets logs packets, and reports whether anyone is reading the log.
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

func (m *Machine) SetFilter(state host.FilterState, digest string) {
	m.mu.Lock()
	defer m.filterChanged()
	defer m.mu.Unlock()
	m.filter.state, m.filter.digest = state, digest
}

// SetCounters sets the result of FilterCounters, for the table with this name.
func (m *Machine) SetCounters(table string, counters ...host.FilterCounter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.counters = host.FilterCounters{Table: table, List: counters}
}

// FailFilter makes FilterState, FilterDigest and FilterCounters fail; nil ends that.
func (m *Machine) FailFilter(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.err = err
}

// FailPacketLog makes PacketLog fail to open; nil ends that.
func (m *Machine) FailPacketLog(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter.logErr = err
}

func (m *Machine) Asked(v FilterVerb) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.filter.asked[v]
}
