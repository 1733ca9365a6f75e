package firewall

import (
	"bytes"
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

// kernel remembers the table as this process has left it, to notice when it changes.
type kernel struct {
	// loading is held while a table is loaded.
	loading sync.Mutex
	loaded

	mu sync.Mutex
	// rules are those of the newest table, and interfaces those of its zones.
	rules      []*Rule
	interfaces map[value.Zone][]value.IfName
	// actions and names are those of the rules; nil until they are asked for.
	actions, names map[uuid.UUID]string
}

// loaded is the table that this process has loaded; at its start there is none. The lane calls one function at a time, which
// is all that guards it.
type loaded struct {
	ours bool
	// generation is the kernel's count of changes when only this process had touched the table. It counts the changes of
	// all tables: a higher one is a reason to look.
	generation uint32
	at         time.Time
	// digest is that of the table then; empty until it has been taken, which costs something in a large table.
	digest string
	// file is that of the table.
	file host.File
}

// action is what a rule does; empty when no table had it.
func (k *kernel) action(rule uuid.UUID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.index()
	return k.actions[rule]
}

// index finds rules by their ids. The caller holds mu.
func (k *kernel) index() {
	if k.actions != nil {
		return
	}
	k.actions, k.names = make(map[uuid.UUID]string, len(k.rules)), make(map[uuid.UUID]string, len(k.rules))
	for _, r := range k.rules {
		k.actions[r.ID], k.names[r.ID] = r.Action, strings.ToLower(r.Name.String())
	}
}

// named are the rules whose name contains a word, which is in lower case.
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

// check asks nft whether it can read the staged file.
func (r *Room) check(ctx context.Context, files []host.File) error {
	_, err := r.Host.Run(ctx, nftables.Check, host.Input{Staged: files})
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

// put changes what differs in the table, whose other rules go on counting, or puts another in its place.
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

// changeTries is how often a change is tried that others come before.
const changeTries = 4

// change changes what differs between the kernel's table and that of a file. Whenever it is not sure, it leaves the table alone.
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
	if change.Empty() { // what differs is for people who read the file
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
			r.kernel.ours = false // it may be done all the same
			return err
		}
		if err := r.known(ctx); err != nil {
			return err
		}
	}
	return host.ErrFilterMoved
}

// partsOf are the parts of the table in a file, which need not be as its renderer has made it.
func partsOf(file host.File) (parts.Text, error) {
	if file.Parts != nil {
		return file.Parts, nil
	}
	return nft.Split(tableName, string(file.Content))
}

// known makes sure that the kernel has the table that this process has loaded, and notes at which generation.
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

// loadTable puts the table of a file in the place of the one that is there. Where it is not known which one that is, and what the kernel does
// not take as it is told, is left to nft, whose word counts most.
func (r *Room) loadTable(ctx context.Context, file host.File) error {
	if r.kernel.ours {
		generation, err := r.Host.FilterLoad(ctx, file)
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
	if _, err := r.Host.Run(ctx, nftables.Load, host.Input{Staged: []host.File{file}}); err != nil {
		return err
	}
	r.kernel.loaded = loaded{ours: true, generation: before.Generation + 1, at: r.Clock.Now(), file: file}
	return nil
}

// verify says whether the kernel has the table of the files, as this process has loaded it. A table that could not be looked at
// is no reason to put another in its place.
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
	case !bytes.Equal(r.kernel.file.Content, files[0].Content):
		return errors.New("the kernel has another table")
	case state.Generation == r.kernel.generation && known:
		return nil
	}
	return r.compare(ctx, state.Generation, files[0])
}

// settle is how long after a change the digest of the table is taken: not while someone waits for the change.
const settle = 3 * time.Second

// unproved is the error of a table of which nothing bad is known.
func unproved(err error) error {
	if errors.Is(err, host.ErrNotInstalled) {
		return err
	}
	return &apply.Partial{Problems: []string{"the table cannot be compared with the one that was loaded: " + err.Error()}}
}

// compare asks whether the table is what was loaded. The generation is that of before: a change that comes while the table is read
// is the next look's.
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

// expected is the digest that the table should have: that which it has, while no table was touched since the load, or else
// that of the file.
func (r *Room) expected(ctx context.Context, generation uint32, digest string, file host.File) (string, error) {
	after, err := r.Host.FilterState(ctx)
	if err != nil || generation == r.kernel.generation && after.Generation == generation {
		return digest, err
	}
	return r.Host.FilterDigestOf(ctx, file)
}
