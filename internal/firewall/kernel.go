package firewall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

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
	at         time.Time
	// actions are those of the rules of the newest table.
	actions map[uuid.UUID]string
	// digest is that of the table then; empty until it has been taken, which costs something in a large table.
	digest string
}

// action is what a rule does; empty when no table had it.
func (k *kernel) action(rule uuid.UUID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.actions[rule]
}

// Boot loads the table that was kept, unless there is one: until the database is there it is better than none.
func (r *Room) Boot(ctx context.Context) {
	state, err := r.Host.FilterState(ctx)
	if err != nil || state.Present {
		return
	}
	kept, err := r.Host.Read(host.PacketFilterTable)
	if errors.Is(err, fs.ErrNotExist) {
		return // the first start
	}
	if err == nil {
		_, err = r.Host.Run(ctx, host.NftLoad, host.Input{Staged: []host.File{{Place: host.PacketFilterTable, Content: kept}}})
	}
	if err != nil {
		r.Log.Error("the packet filter that was kept could not be loaded", "component", "packet-filter", "err", err)
	}
}

// check asks nft whether it can read the staged file.
func (r *Room) check(ctx context.Context, files []host.File) error {
	_, err := r.Host.Run(ctx, host.NftCheck, host.Input{Staged: files})
	return err
}

// replace puts the table in the place of the one that is there, in one transaction of the kernel.
func (r *Room) replace(ctx context.Context, c Config, files []host.File) error {
	replaced := r.hits.replacing(ctx)
	if err := r.transact(ctx, files); err != nil {
		return err
	}
	actions := make(map[uuid.UUID]string, len(c.Rules))
	for i := range c.Rules {
		actions[c.Rules[i].ID] = c.Rules[i].Action
	}
	r.kernel.mu.Lock()
	r.kernel.actions = actions
	r.kernel.mu.Unlock()
	replaced()
	for _, s := range skipped(c) {
		r.Log.Warn("a NAT rule has no effect", "component", "packet-filter", "rule", s.ID, "err", s.Reason)
	}
	return nil
}

// transact has nft run a transaction, and takes the result for ours, unless somebody else ran one meanwhile: that may have
// been before or after ours, so the next verify asks for another.
func (r *Room) transact(ctx context.Context, files []host.File) error {
	before, err := r.Host.FilterState(ctx)
	if err != nil {
		return fmt.Errorf("reading the table before: %w", err)
	}
	if _, err := r.Host.Run(ctx, host.NftLoad, host.Input{Staged: files}); err != nil {
		return err
	}
	state, err := r.Host.FilterState(ctx)
	if err != nil {
		return fmt.Errorf("reading the table back: %w", err)
	}
	r.kernel.mu.Lock()
	r.kernel.loaded, r.kernel.generation, r.kernel.at, r.kernel.digest = state.Generation == before.Generation+1, state.Generation, r.Clock.Now(), ""
	r.kernel.mu.Unlock()
	return nil
}

// verify says whether the kernel has the table of the files, as this process has loaded it.
func (r *Room) verify(ctx context.Context, _ Config, files []host.File) error {
	state, err := r.Host.FilterState(ctx)
	if err != nil {
		return err
	}
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	switch {
	case !state.Present:
		return errors.New("the table is not in the kernel")
	case !r.kernel.loaded:
		return errors.New("this process has not loaded the table yet")
	case !bytes.Contains(files[0].Content, []byte(`comment "`+state.Comment+`"`)):
		return errors.New("the kernel has another table")
	case state.Generation != r.kernel.generation:
		return r.compare(ctx, state.Generation)
	case r.kernel.digest == "" && r.Clock.Now().Sub(r.kernel.at) > settle:
		return r.takeDigest(ctx)
	}
	return nil
}

// settle is how long after a change the digest of the table is taken: not while somebody waits for the change.
const settle = 3 * time.Second

func (r *Room) takeDigest(ctx context.Context) (err error) {
	r.kernel.digest, err = r.Host.FilterDigest(ctx)
	return err
}

// compare asks whether a change of the packet filter, which was not ours, was one of our table.
func (r *Room) compare(ctx context.Context, generation uint32) error {
	was := r.kernel.digest
	if err := r.takeDigest(ctx); err != nil {
		return err
	}
	if was != r.kernel.digest {
		r.kernel.loaded = false
		return errors.New("somebody has changed the table")
	}
	r.kernel.generation = generation
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
