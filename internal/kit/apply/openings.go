package apply

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/secret"
)

// Standing lists the openings for what runs that the stored state does not ask for: while the last known good configuration runs
// in its place, and as long as that is possible.
func (e *Engine) Standing() (all []policy.Opening) {
	for _, id := range e.order {
		l := e.lanes[id]
		l.mu.Lock()
		all = append(all, l.standing...)
		l.mu.Unlock()
	}
	return all
}

// updateStanding records the openings for what runs after a pass that ended with err, and makes the packet filter read them if
// they have changed.
func (l *lane) updateStanding(now *target, err error) error {
	if l.openings == nil || now.config == nil || unread(err) {
		return nil // there is no stored state to compare with
	}
	stored := l.openings(now.config)
	var standing []policy.Opening
	var unkept error
	switch {
	case err == nil:
		unkept = l.keepOpenings(stored)
	case !errors.Is(err, host.ErrNotInstalled):
		standing = policy.Without(l.engine.keptOpenings(l.id), stored)
	}
	l.mu.Lock()
	was := policy.Without(l.standing, stored)
	l.standing = standing
	l.mu.Unlock()
	if len(policy.Without(was, standing))+len(policy.Without(standing, was)) > 0 {
		l.engine.reopen()
	}
	return unkept
}

// reopen makes the packet filter read the openings again.
func (e *Engine) reopen() {
	l := e.lanes[PacketFilter]
	if l == nil {
		return
	}
	l.mu.Lock()
	l.committed = nil
	l.mu.Unlock()
	l.kick(0, false)
}

// keptOpenings returns those of the last known good configuration.
func (e *Engine) keptOpenings(id ID) (list []policy.Opening) {
	b, err := os.ReadFile(e.goodPath(id, goodOpenings))
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.log.Warn("the openings of the last known good configuration are unreadable", "component", id, "err", err)
	}
	return list
}

// keepOpenings keeps those of the configuration that the daemon runs with, unless that waits for its confirmation.
func (l *lane) keepOpenings(list []policy.Opening) error {
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	l.keeping.Lock()
	defer l.keeping.Unlock()
	path := l.engine.goodPath(l.id, goodOpenings)
	if was, err := os.ReadFile(path); l.held || err == nil && bytes.Equal(was, b) {
		return nil
	}
	if err := secret.Save(path, b); err != nil {
		return fmt.Errorf("keeping the openings of the last known good configuration: %w", err)
	}
	return nil
}
