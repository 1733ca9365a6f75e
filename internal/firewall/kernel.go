package firewall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/value"
)

// kernel remembers the table as this process has left it, to notice changes.
type kernel struct {
	// loading is held while a table is loaded.
	loading sync.Mutex
	loaded

	mu sync.Mutex
	// rules are those of the newest table, and interfaces those of its zones.
	rules      []*Rule
	interfaces map[value.Zone][]value.IfName
	// actions and names of the rules by id; nil until needed.
	actions, names map[uuid.UUID]string
}

// loaded is the table that this process has loaded; none at first. It needs no lock, because the lane calls one function at a time.
type loaded struct {
	ours bool
	// generation is the kernel's count of changes when only this process had touched the table. Changes of other tables raise it, too, so
	// a higher one is just a reason to check.
	generation uint32
	at         time.Time
	// digest is that of the table then; empty until it was computed, which is expensive for a large table.
	digest string
	file   host.File
}

// action returns the action of a rule; empty if no table had it.
func (k *kernel) action(rule uuid.UUID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.index()
	return k.actions[rule]
}

// index builds the maps of rules by id. The caller holds mu.
func (k *kernel) index() {
	if k.actions != nil {
		return
	}
	k.actions, k.names = make(map[uuid.UUID]string, len(k.rules)), make(map[uuid.UUID]string, len(k.rules))
	for _, r := range k.rules {
		k.actions[r.ID], k.names[r.ID] = r.Action, strings.ToLower(r.Name.String())
	}
}

// named returns the rules whose name contains a word in lower case.
func (k *kernel) named(word string) map[uuid.UUID]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.index()
	found := map[uuid.UUID]bool{}
	for id, name := range k.names {
		if strings.Contains(name, word) {
			found[id] = true
		}
	}
	return found
}

func (k *kernel) members(zone value.Zone) []value.IfName {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.interfaces[zone]
}

// check asks nft whether it accepts the staged file.
func (r *Room) check(ctx context.Context, files []host.File) error {
	_, err := r.Host.Run(ctx, nftables.Check, host.Input{Staged: []host.File{files[0].Whole()}})
	return err
}

// replace brings the kernel's table to that of the files, in one transaction.
func (r *Room) replace(ctx context.Context, c Config, files []host.File) error {
	if err := r.put(ctx, files[0]); err != nil {
		return err
	}
	r.kernel.mu.Lock()
	r.kernel.rules, r.kernel.interfaces = c.Rules, c.Interfaces
	r.kernel.actions, r.kernel.names = nil, nil
	r.kernel.mu.Unlock()
	for _, s := range skipped(c) {
		r.Log.Warn("a NAT rule has no effect", "component", "packet-filter", "rule", s.ID, "name", s.Name, "err", s.Reason)
	}
	return nil
}

// put changes only what differs, so that other rules keep counting, or else replaces the table.
func (r *Room) put(ctx context.Context, file host.File) error {
	r.kernel.loading.Lock()
	defer r.kernel.loading.Unlock()
	err := r.change(ctx, file)
	if err == nil || ctx.Err() != nil {
		return err
	}
	r.Log.Debug("the whole table is loaded", "component", "packet-filter", "err", err)
	return r.hits.across(ctx, func() error { return r.loadTable(ctx, file) })
}

// changeTries is how often a change is retried when other changes come first.
const changeTries = 4

// change changes what differs between the kernel's table and a file. If in doubt, it leaves the table alone.
func (r *Room) change(ctx context.Context, file host.File) error {
	if !r.kernel.ours {
		return errors.New("it is not known which table there is")
	}
	was, err1 := partsOf(r.kernel.file)
	now, err2 := partsOf(file)
	change, ok := nft.Difference(was, now)
	if err := errors.Join(err1, err2); err != nil || !ok {
		return cmp.Or(err, errors.New("too much differs"))
	}
	if change.Empty() { // the files only differ for human readers
		r.kernel.file = file
		return nil
	}
	for range changeTries {
		change.Generation = r.kernel.generation
		err := r.hits.without(ctx, func() ([]host.FilterCounter, error) { return r.Host.FilterChange(ctx, change) })
		if err == nil {
			r.kernel.loaded = loaded{ours: true, generation: change.Generation + 1, at: r.Clock.Now(), file: file}
			return nil
		}
		if !errors.Is(err, host.ErrFilterMoved) {
			r.kernel.ours = false // it may have been carried out
			return err
		}
		if err := r.known(ctx); err != nil {
			return err
		}
	}
	return host.ErrFilterMoved
}

// partsOf returns the parts of the table in a file, which may not come from its renderer.
func partsOf(file host.File) (parts.Text, error) {
	if file.Parts != nil {
		return file.Parts, nil
	}
	return nft.Split(tableName, string(file.Content))
}

// known makes sure that the kernel still has the table that this process has loaded, and records the generation.
func (r *Room) known(ctx context.Context) error {
	state, err := r.Host.FilterState(ctx)
	switch {
	case err != nil:
		return err
	case state.Generation == r.kernel.generation:
		return nil
	case !state.Present || r.kernel.digest == "":
		return errors.New("others have changed the packet filter")
	}
	return r.compare(ctx, state.Generation, r.kernel.file)
}

// loadTable replaces the kernel's table by that of a file. If the present table is unknown, or the kernel refuses the netlink messages,
// nft loads the file, because its verdict is authoritative.
func (r *Room) loadTable(ctx context.Context, file host.File) error {
	if r.kernel.ours {
		generation, err := r.Host.FilterLoad(ctx, file.Whole())
		if err == nil {
			r.kernel.loaded = loaded{ours: true, generation: generation, at: r.Clock.Now(), file: file}
			return nil
		}
		r.Log.Debug("nft loads the table", "component", "packet-filter", "err", err)
	}
	// If others run transactions at the same time, the kernel's generation is not the next one, and verify compares the table.
	before, err := r.Host.FilterState(ctx)
	if err != nil {
		return fmt.Errorf("reading the table before: %w", err)
	}
	if _, err := r.Host.Run(ctx, nftables.Load, host.Input{Staged: []host.File{file.Whole()}}); err != nil {
		return err
	}
	r.kernel.loaded = loaded{ours: true, generation: before.Generation + 1, at: r.Clock.Now(), file: file}
	return nil
}

// verify checks that the kernel has the table of the files, as this process has loaded it. A table that could not be read is no reason to
// replace it.
func (r *Room) verify(ctx context.Context, _ Config, files []host.File) error {
	state, err := r.Host.FilterState(ctx)
	if err != nil {
		return unproved(err)
	}
	known := r.kernel.digest != "" || r.Clock.Now().Sub(r.kernel.at) <= settle
	switch {
	case !state.Present:
		return errors.New("the table is not in the kernel")
	case !r.kernel.ours:
		return errors.New("this process has not loaded the table yet")
	case !r.kernel.file.Same(files[0]):
		return errors.New("the kernel has another table")
	case state.Generation == r.kernel.generation && known:
		return nil
	}
	return r.compare(ctx, state.Generation, files[0])
}

// settle is how long after a change the digest of the table is computed: not while someone waits for the change.
const settle = 3 * time.Second

// unproved is the error for a table about which nothing bad is known.
func unproved(err error) error {
	if errors.Is(err, host.ErrNotInstalled) {
		return err
	}
	return &apply.Partial{Problems: []string{"the table cannot be compared with the one that was loaded: " + err.Error()}}
}

// compare checks whether the table is what was loaded. It uses the generation from before: the next check sees a change made while the
// table is read.
func (r *Room) compare(ctx context.Context, generation uint32, file host.File) error {
	digest, err := r.Host.FilterDigest(ctx)
	if err != nil {
		return unproved(err)
	}
	if r.kernel.digest == "" {
		if r.kernel.digest, err = r.expected(ctx, generation, digest, file); err != nil {
			return unproved(err)
		}
	}
	if digest != r.kernel.digest {
		r.kernel.ours = false
		return errors.New("the table was changed by another program")
	}
	r.kernel.generation = generation
	return nil
}

// expected returns the digest that the table should have: its present one if no table was touched since the load, or else that of the
// file.
func (r *Room) expected(ctx context.Context, generation uint32, digest string, file host.File) (string, error) {
	after, err := r.Host.FilterState(ctx)
	if err != nil || generation == r.kernel.generation && after.Generation == generation {
		return digest, err
	}
	return r.Host.FilterDigestOf(ctx, file.Whole())
}
