package hosttest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/job"
)

// jobs accepts wishes. Nothing grants them unless a test lends a function that does; it must call SetJob itself.
type jobs map[job.Name]*jobState

type jobState struct {
	refused      error // why it cannot start
	wish, record []byte
	grant        func()
}

// job requires m.mu.
func (m *Machine) job(n job.Name) *jobState {
	if m.jobs == nil {
		m.jobs = jobs{}
	}
	if m.jobs[n] == nil {
		m.jobs[n] = &jobState{}
	}
	return m.jobs[n]
}

func (m *Machine) BeginJob(_ context.Context, n job.Name, wish []byte, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.job(n)
	var last job.Record
	switch {
	case j.refused != nil:
		return j.refused
	case j.wish != nil, json.Unmarshal(j.record, &last) == nil && last.State == job.Running:
		return n.Err()
	}
	var fields map[string]any
	if err := json.Unmarshal(wish, &fields); err != nil {
		return err
	}
	fields["id"], fields["at"] = uuid.Must(uuid.NewV7()).String(), time.Now().UTC()
	wish, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if j.wish = wish; j.grant != nil {
		go j.grant()
	}
	return nil
}

func (m *Machine) ReadJob(n job.Name) (wish, record []byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.job(n)
	return j.wish, j.record, nil
}

func (m *Machine) EndJob(_ context.Context, n job.Name, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var wish job.Wish
	if j := m.job(n); json.Unmarshal(j.wish, &wish) == nil && wish.ID == id {
		j.wish = nil
	}
	return nil
}

// RefuseJob makes BeginJob fail; nil ends that.
func (m *Machine) RefuseJob(n job.Name, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.job(n).refused = err
}

// SetJob sets the record of the running or the last job, and removes the wish that it has granted. A nil record removes both.
func (m *Machine) SetJob(n job.Name, record any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.job(n)
	if j.wish, j.record = nil, nil; record == nil {
		return
	}
	content, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	j.record = content
}

// LendJob sets a function that grants wishes in the background.
func (m *Machine) LendJob(n job.Name, grant func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.job(n).grant = grant
}
