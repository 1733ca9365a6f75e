package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/rescue"
	"edge.internal/gateway/internal/kit/secret"
)

// Boot applies the last configuration of the components that the kernel forgets at a reboot. It is for a start without a
// database: with one, the lanes apply what is stored.
func (e *Engine) Boot(ctx context.Context) {
	for _, id := range e.order {
		l := e.lanes[id]
		if l.decode == nil {
			continue
		}
		switch err := l.boot(ctx); {
		case errors.Is(err, fs.ErrNotExist): // a new gateway
		case err != nil:
			e.log.Warn("applying the last configuration failed", "component", id, "err", err)
		default:
			e.log.Info("the last configuration was applied until the database is available", "component", id)
		}
	}
}

func (l *lane) boot(ctx context.Context) (err error) {
	defer rescue.Into(&err, l.engine.log, string(l.id))
	ctx, cancel := context.WithTimeout(ctx, applyWithin)
	defer cancel()
	config, err := l.keptConfig()
	if err != nil {
		return err
	}
	files, err := l.render(config)
	if err != nil {
		return err
	}
	l.work.Lock()
	defer l.work.Unlock()
	return l.apply(ctx, config, files)
}

// startEarly starts a daemon that is down with the files on disk, if it has ever run. The first pass finds it running, like one that
// outlived an earlier process: it trusts these files only if they are both the stored state and the last known good one.
func (l *lane) startEarly(ctx context.Context) {
	if !l.early || l.isOverdue() || !l.engine.hasGood(l.id) {
		return
	}
	if state, err := l.state(ctx); err != nil || !state.Installed || state.Active != "inactive" && state.Active != "failed" {
		return
	}
	l.beginWork()
	err := l.engine.host.Start(ctx, l.unit)
	l.endWork(ctx, nil)
	if err != nil && ctx.Err() == nil {
		l.engine.log.Warn("the daemon does not start with the files that it last ran with; a full pass follows", "component", l.id, "err", err)
	}
}

func (l *lane) keptConfig() (any, error) {
	if l.decode == nil {
		return nil, fs.ErrNotExist
	}
	sealed, err := os.ReadFile(l.engine.goodPath(l.id, goodConfig))
	if err != nil {
		return nil, err
	}
	plain, err := l.engine.box.Open(sealed, goodConfig, string(l.id), "")
	if err != nil {
		return nil, err
	}
	config, err := l.decode([]byte(plain))
	if err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	return config, nil
}

// retain keeps the configuration of a volatile component, unless a change waits for its confirmation.
func (l *lane) retain(config any) error {
	if l.decode == nil || config == nil {
		return nil
	}
	plain, err := json.Marshal(config)
	if err != nil {
		return err
	}
	l.keeping.Lock()
	defer l.keeping.Unlock()
	if l.held {
		return nil
	}
	if bytes.Equal(plain, l.retained) {
		return nil
	}
	sealed, err := l.engine.box.Seal(string(plain), goodConfig, string(l.id), "")
	if err != nil {
		return err
	}
	if err := secret.Save(l.engine.goodPath(l.id, goodConfig), sealed); err != nil {
		return fmt.Errorf("keeping the configuration for a start without a database: %w", err)
	}
	l.retained = plain
	return nil
}
