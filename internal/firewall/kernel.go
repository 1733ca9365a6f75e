package firewall

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
)

// kernel remembers the table as this process has left it, to notice when somebody else changes it.
type kernel struct {
	mu sync.Mutex
	// loaded says that the table is this process's doing; at its start it never is.
	loaded bool
	// generation is the kernel's count of changes, ours and others', when the table was ours.
	generation uint32
	// digest is that of the table then; empty until it has been taken.
	digest string
}

// check asks nft whether it can read the staged file.
func (r *Room) check(ctx context.Context, files []host.File) error {
	_, err := r.Host.Run(ctx, host.NftCheck, host.Input{Staged: files})
	return err
}

// replace puts the table in the place of the one that is there, in one transaction of the kernel.
func (r *Room) replace(ctx context.Context, c Config, files []host.File) error {
	if err := r.transact(ctx, files); err != nil {
		return err
	}
	for _, s := range compile(c).Skipped {
		r.Log.Warn("a NAT rule has no effect", "component", "packet-filter", "rule", s.ID, "err", s.Reason)
	}
	return nil
}

// transact has nft run a transaction, and takes the result for ours.
func (r *Room) transact(ctx context.Context, files []host.File) error {
	if _, err := r.Host.Run(ctx, host.NftLoad, host.Input{Staged: files}); err != nil {
		return err
	}
	state, err := r.Host.FilterState(ctx)
	if err != nil {
		return fmt.Errorf("reading the table back: %w", err)
	}
	r.kernel.mu.Lock()
	r.kernel.loaded, r.kernel.generation, r.kernel.digest = true, state.Generation, ""
	r.kernel.mu.Unlock()
	return nil
}

// verify says whether the kernel has the table of the configuration, as this process has loaded it. The digest of the
// whole table is only taken where it can tell something: the first time, and when something has changed.
func (r *Room) verify(ctx context.Context, c Config) error {
	state, err := r.Host.FilterState(ctx)
	if err != nil {
		return err
	}
	t := table(compile(c))
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	switch {
	case !state.Present:
		return errors.New("the table is not in the kernel")
	case !r.kernel.loaded:
		return errors.New("the table is not loaded yet")
	case state.Comment != t.Comment:
		return errors.New("the kernel has another table")
	case state.Generation == r.kernel.generation:
		return nil
	}
	return nil
}

// onlySets tells whether nothing differs but what names resolve to: then the sets are filled anew and the table stays.
func onlySets(was, now Config) bool {
	if len(was.Addresses) != len(now.Addresses) || reflect.DeepEqual(was.Addresses, now.Addresses) {
		return false
	}
	strip := func(c Config) Config {
		c.Addresses = slices.Clone(c.Addresses)
		for i := range c.Addresses {
			c.Addresses[i].Resolved = nil
		}
		return c
	}
	return reflect.DeepEqual(strip(was), strip(now))
}

// refill gives the sets whose content differs their new elements, in one transaction.
func (r *Room) refill(ctx context.Context, was, now Config) error {
	old := map[string]nft.Set{}
	for _, s := range compile(was).Sets {
		old[s.Name.String()] = s
	}
	var changed []nft.Set
	for _, s := range compile(now).Sets {
		if !slices.Equal(old[s.Name.String()].Elements, s.Elements) {
			changed = append(changed, s)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return r.transact(ctx, []host.File{{Place: host.PacketFilterTable, Content: nft.Refill(tableName, changed)}})
}
