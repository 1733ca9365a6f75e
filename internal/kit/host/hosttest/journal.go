package hosttest

import (
	"context"
	"fmt"

	"edge.internal/gateway/internal/kit/host"
)

// journal is what the daemons of the machine in memory have said.
type journal struct {
	said    []host.JournalLine // oldest first
	changed chan struct{}
	failure error
	// slow makes a search stop after so many entries, until its context ends.
	slow int
}

// Speak adds something to the journal.
func (m *Machine) Speak(s host.JournalLine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Cursor = fmt.Sprintf("i=%x", len(m.journal.said)+1)
	m.journal.said = append(m.journal.said, s)
	if m.journal.changed != nil {
		close(m.journal.changed)
	}
	m.journal.changed = make(chan struct{})
}

// FailJournal makes the journal unreadable; nil makes it well again.
func (m *Machine) FailJournal(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal.failure = err
}

// SlowJournal makes each search take until its context ends after it has looked at so many entries; 0 makes it quick again.
func (m *Machine) SlowJournal(entries int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal.slow = entries
}

func (m *Machine) heard() (said []host.JournalLine, changed chan struct{}, slow int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.journal.changed == nil {
		m.journal.changed = make(chan struct{})
	}
	return m.journal.said, m.journal.changed, m.journal.slow, m.journal.failure
}

// SearchJournal searches what Speak has said.
func (m *Machine) SearchJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry, host.JournalPlace)) error {
	if err := m.breaks(); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return err
	}
	said, _, slow, err := m.heard()
	if err != nil {
		return err
	}
	filter, found, begun := host.NewJournalFilter(q), 0, q.Before == ""
	for i, seen := len(said)-1, 0; i >= 0; i-- {
		if !begun {
			begun = said[i].Cursor == q.Before
			continue
		}
		var batch []host.JournalEntry
		if e, ok := filter.Match(said[i]); ok {
			batch, found = append(batch, e), found+1
		}
		sink(batch, host.JournalPlace{Cursor: said[i].Cursor, At: said[i].At})
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

// FollowJournal follows what Speak says.
func (m *Machine) FollowJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry)) error {
	if err := q.Check(); err != nil {
		return err
	}
	filter := host.NewJournalFilter(q)
	for next := 0; ; {
		said, changed, _, err := m.heard()
		if err != nil {
			return err
		}
		for ; next < len(said); next++ {
			if e, ok := filter.Match(said[next]); ok {
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
