package firewall

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// resolveEvery is how often names are resolved again.
	resolveEvery = time.Minute
	// resolveWithin limits one lookup.
	resolveWithin = 5 * time.Second
	// resolveAtOnce is how many names are looked up at the same time.
	resolveAtOnce = 8
	// resolveGather is how long an answer waits for others, so that they are applied together.
	resolveGather = 200 * time.Millisecond
	// resolveMost is the maximum number of addresses of a name.
	resolveMost = 256
)

// resolver keeps the answers for the names among the address objects. A changed answer refills the kernel's sets; the table stays. While
// the DNS fails, the last answer stays.
type resolver struct {
	room   *Room
	signal chan struct{}
	// failed has a 1 for each name whose last lookup failed.
	failed map[string]int
}

func newResolver(r *Room) *resolver { return &resolver{room: r, signal: make(chan struct{}, 1)} }

// wake starts a pass now, because there is a new name.
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

// pass resolves every name once, and stores changed answers. Names whose last lookup failed come last, and other answers do not wait for
// them.
func (v *resolver) pass(ctx context.Context) error {
	objects, err := v.room.addresses.All(ctx, v.room.DB)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o Address) bool { return o.Kind != kindFQDN })
	slices.SortStableFunc(objects, func(a, b Address) int { return cmp.Compare(v.failed[a.Value], v.failed[b.Value]) })
	answers := v.ask(ctx, objects)
	var failures []error
	failed, changed := map[string]int{}, map[string][]value.Addr{}
	for {
		var due <-chan time.Time
		if len(changed) > 0 {
			due = time.After(resolveGather)
		}
		select {
		case a, more := <-answers:
			switch {
			case !more:
				v.failed = failed
				return errors.Join(append(failures, v.store(ctx, changed))...)
			case a.err != nil:
				failures, failed[a.name] = append(failures, a.err), 1
			case a.differs:
				changed[a.name] = a.addresses
			}
		case <-due:
			failures, changed = append(failures, v.store(ctx, changed)), map[string][]value.Addr{}
		}
	}
}

// answer is the result for a name.
type answer struct {
	name      string
	addresses []value.Addr
	differs   bool // from what is stored
	err       error
}

// ask looks up the names, some at a time, and closes the channel when all are done.
func (v *resolver) ask(ctx context.Context, objects []Address) <-chan answer {
	answers := make(chan answer)
	go func() {
		defer close(answers)
		var asking errgroup.Group
		asking.SetLimit(resolveAtOnce)
		for _, o := range objects {
			asking.Go(func() error {
				found, err := v.resolve(ctx, o.Value)
				answers <- answer{o.Value, found, !slices.Equal(found, o.Resolved), err}
				return nil
			})
		}
		_ = asking.Wait()
	}()
	return answers
}

// resolve looks up one name. That a name does not exist is an answer; a missing answer is an error.
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

// store stores the answers of objects that still have the same name, and applies them.
func (v *resolver) store(ctx context.Context, answers map[string][]value.Addr) error {
	if len(answers) == 0 {
		return nil
	}
	_, err := v.room.Engine.CommitBoth(ctx, nil, []apply.ID{apply.PacketFilter}, func(tx *db.Tx) ([]apply.Row, error) {
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
