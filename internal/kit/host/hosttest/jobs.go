package hosttest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/job"
)

// jobs are those of the machine in memory. Nothing grants a wish, unless a test lends what does: it says itself what becomes of it.
type jobs map[job.Name]*jobState

type jobState struct {
	refused      error // why it cannot begin
	wish, record []byte
	grant        func()
}

// job is one of them; m.mu is held.
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
	var said map[string]any
	if err := json.Unmarshal(wish, &said); err != nil {
		return err
	}
	said["id"], said["at"] = uuid.Must(uuid.NewV7()).String(), time.Now().UTC()
	wish, err := json.Marshal(said)
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

// RefuseJob has a job not begin; nil lets it.
func (m *Machine) RefuseJob(n job.Name, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.job(n).refused = err
}

// SetJob sets the record of the running or the last job, which has granted its wish; nil for none.
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

// LendJob lends what grants a wish while the caller goes on.
func (m *Machine) LendJob(n job.Name, grant func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.job(n).grant = grant
}
