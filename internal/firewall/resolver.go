package firewall

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// resolveEvery is how often names are resolved again.
	resolveEvery = time.Minute
	// resolveWithin bounds one answer of the DNS.
	resolveWithin = 5 * time.Second
	// resolveAtOnce is how many names are asked for at the same time, so that those nobody answers for do not delay the others.
	resolveAtOnce = 8
	// resolveMost is how many addresses a name may stand for.
	resolveMost = 256
)

// resolver keeps the answers for the names among the address objects. An answer that changes fills the kernel's sets
// anew; the table stays. While the DNS fails, the last answer stays.
type resolver struct {
	room   *Room
	signal chan struct{}
}

func newResolver(r *Room) *resolver { return &resolver{room: r, signal: make(chan struct{}, 1)} }

// wake has the names resolved now: there is a new one.
func (v *resolver) wake() {
	select {
	case v.signal <- struct{}{}:
	default:
	}
}

func (v *resolver) run(ctx context.Context) {
	for {
		if err := v.pass(ctx); err != nil && ctx.Err() == nil && !db.Away(err) {
			v.room.Log.Warn("resolving the names of address objects", "component", "packet-filter", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-v.signal:
		case <-time.After(resolveEvery):
		}
	}
}

// pass resolves every name once, and stores the answers that differ.
func (v *resolver) pass(ctx context.Context) error {
	objects, err := v.room.addresses.All(ctx, v.room.DB)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failures []error
	changed := map[string][]value.Addr{}
	var asking errgroup.Group
	asking.SetLimit(resolveAtOnce)
	for _, o := range objects {
		if o.Kind != kindFQDN {
			continue
		}
		asking.Go(func() error {
			answer, err := v.resolve(ctx, o.Value)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failures = append(failures, err)
			case !slices.Equal(answer, o.Resolved):
				changed[o.Value] = answer
			}
			return nil
		})
	}
	_ = asking.Wait() // the failures are kept apart: one does not end the rest
	if len(changed) > 0 {
		failures = append(failures, v.store(ctx, changed))
	}
	return errors.Join(failures...)
}

// resolve asks for one name. That a name does not exist is an answer; that nobody answers is not.
func (v *resolver) resolve(ctx context.Context, name string) ([]value.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	found, err := v.room.deps.Resolve(ctx, name)
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, netip.Addr.Compare)
	var answer []value.Addr
	for _, ip := range slices.Compact(found) {
		if a, err := value.Parse[value.Addr](ip.Unmap().WithZone("").String()); err == nil && len(answer) < resolveMost {
			answer = append(answer, a)
		}
	}
	return answer, nil
}

// store keeps the answers of names that still stand for what was asked, and has the kernel take them.
func (v *resolver) store(ctx context.Context, answers map[string][]value.Addr) error {
	_, err := v.room.Engine.Commit(ctx, []apply.ID{apply.PacketFilter}, func(tx *db.Tx) ([]apply.Row, error) {
		for name, answer := range answers {
			if answer == nil {
				answer = []value.Addr{}
			}
			tx.Queue(`UPDATE firewall_address_objects SET resolved = $2 WHERE kind = 'fqdn' AND value = $1`, name, answer)
		}
		return nil, nil
	})
	return err
}
