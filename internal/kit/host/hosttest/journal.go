package hosttest

import (
	"context"
	"fmt"

	"edge.internal/gateway/internal/kit/host"
)

type journal struct {
	lines   []host.JournalLine // oldest first
	changed chan struct{}
	failure error
	// slow makes a search block after this many entries until its context ends.
	slow int
}

func (m *Machine) AddLine(s host.JournalLine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Cursor = fmt.Sprintf("i=%x", len(m.journal.lines)+1)
	m.journal.lines = append(m.journal.lines, s)
	if m.journal.changed != nil {
		close(m.journal.changed)
	}
	m.journal.changed = make(chan struct{})
}

// FailJournal makes the journal unreadable; nil ends that.
func (m *Machine) FailJournal(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal.failure = err
}

// SlowJournal makes each search block after this many entries until its context ends; 0 ends that.
func (m *Machine) SlowJournal(entries int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal.slow = entries
}

func (m *Machine) logged() (lines []host.JournalLine, changed chan struct{}, slow int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.journal.changed == nil {
		m.journal.changed = make(chan struct{})
	}
	return m.journal.lines, m.journal.changed, m.journal.slow, m.journal.failure
}

func (m *Machine) SearchJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry, host.JournalPlace)) error {
	if err := m.breaks(); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return err
	}
	lines, _, slow, err := m.logged()
	if err != nil {
		return err
	}
	filter, found, begun := host.NewJournalFilter(q), 0, q.Before == ""
	for i, seen := len(lines)-1, 0; i >= 0; i-- {
		if !begun {
			begun = lines[i].Cursor == q.Before
			continue
		}
		var batch []host.JournalEntry
		if e, ok := filter.Match(lines[i]); ok {
			batch, found = append(batch, e), found+1
		}
		sink(batch, host.JournalPlace{Cursor: lines[i].Cursor, At: lines[i].At})
		if q.Limit > 0 && found == q.Limit {
			return nil
		}
		if seen++; seen == slow {
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

func (m *Machine) FollowJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry)) error {
	if err := q.Check(); err != nil {
		return err
	}
	filter := host.NewJournalFilter(q)
	for next := 0; ; {
		lines, changed, _, err := m.logged()
		if err != nil {
			return err
		}
		for ; next < len(lines); next++ {
			if e, ok := filter.Match(lines[next]); ok {
				sink([]host.JournalEntry{e})
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
