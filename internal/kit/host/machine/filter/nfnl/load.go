package nfnl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
)

var setKinds = map[string]kind{"ipv4_addr": kindIPv4, "ipv6_addr": kindIPv6}

// named returns a set with a name, so that its elements can change later.
func named(s *nft.ListedSet) (*set, error) {
	k, list, err := elementsOf(s)
	if err != nil {
		return nil, err
	}
	return &set{
		name: s.Name, flags: unix.NFT_SET_INTERVAL, keyType: k.number, keyLen: k.length,
		userdata: noteOf(noteKeyOrder, k.order), elements: bounds(list),
	}, nil
}

func elementsOf(s *nft.ListedSet) (kind, []span, error) {
	k, known := setKinds[s.Type]
	if !known || !isName(s.Name) {
		return k, nil, foreign(s.Name + " " + s.Type)
	}
	var items []string
	if s.Elements != "" {
		items = strings.Split(s.Elements, ", ")
	}
	list, err := spans(items, k)
	return k, list, err
}

// refill writes the messages that change the elements of a set.
func (b *batch) refill(r *nft.Refill) error {
	_, gone, err := elementsOf(&nft.ListedSet{Name: r.Name, Type: r.Type, Elements: r.Remove})
	if err != nil {
		return err
	}
	_, list, err := elementsOf(&nft.ListedSet{Name: r.Name, Type: r.Type, Elements: r.Add})
	if err != nil {
		return err
	}
	s := &set{name: r.Name, elements: ends(list)}
	if r.Whole {
		b.flushSet(r.Name)
		s.elements = bounds(list)
	}
	b.deleteElements(&set{name: r.Name, elements: ends(gone)})
	b.addElements(s)
	return nil
}

// make writes the messages that create sets, and chains with their rules.
func (b *batch) make(sets []nft.ListedSet, chains []nft.ListedChain) error {
	for i := range sets {
		s, err := named(&sets[i])
		if err != nil {
			return err
		}
		b.addSet(s)
	}
	// All chains come before the first rule, which may jump to any of them.
	for i := range chains {
		if !isName(chains[i].Name) {
			return foreign(chains[i].Name)
		}
		if err := b.addChain(chains[i].Name, chains[i].Hook); err != nil {
			return err
		}
	}
	// For each rule with sets of its own, the kernel looks through the whole transaction so far, so chains with such rules come first.
	for _, withSets := range []bool{true, false} {
		for i := range chains {
			if strings.Contains(chains[i].Body, "{") != withSets {
				continue
			}
			if err := b.addRules(&chains[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *batch) addRules(c *nft.ListedChain) error {
	for _, line := range c.Rules() {
		if err := b.addRule(c.Name, line, 0); err != nil {
			return err
		}
	}
	return nil
}

// Load replaces a table with that of a file, in one transaction. It returns the new generation.
func (s *Socket) Load(ctx context.Context, table, text string) (generation uint32, err error) {
	l, err := nft.Read(table, text)
	if err != nil {
		return 0, err
	}
	b := newBatch(table)
	b.out = append(make([]byte, 0, 8*len(text)), b.out...)
	b.fresh = true
	b.addTable() // so that there is a table to delete
	b.deleteTable()
	b.addTable()
	if err := b.make(l.Sets, l.Chains); err != nil {
		return 0, err
	}
	b.finish()
	err = s.followers.without(func() error {
		return s.use(ctx, func(c *conn) (err error) {
			for range attempts {
				if generation, err = c.generation(ctx); err != nil {
					return err
				}
				if err = c.commit(ctx, b, generation, nil); !errors.Is(err, unix.ERESTART) {
					return err
				}
			}
			return errUnstable
		})
	})
	return generation + 1, err
}

// Change changes parts of a table in one transaction, and only if nothing has changed since the change's generation. It returns the
// counters of the removed rules.
func (s *Socket) Change(ctx context.Context, table, prefix string, change *nft.Change) ([]host.FilterCounter, error) {
	var tally tally
	if change.Empty() {
		return nil, nil // the kernel does not acknowledge an empty transaction
	}
	err := s.use(ctx, func(c *conn) error {
		tally.reset(prefix)
		b := newBatch(table)
		if err := b.make(change.NewSets, change.NewChains); err != nil {
			return err
		}
		for i := range change.Edits {
			if err := c.edit(ctx, b, &change.Edits[i]); err != nil {
				return err
			}
		}
		for i := range change.Refills {
			if err := b.refill(&change.Refills[i]); err != nil {
				return err
			}
		}
		for _, name := range slices.Concat(change.GoneChains, change.GoneSets) {
			if !isName(name) {
				return foreign(name)
			}
		}
		for _, name := range change.GoneChains {
			b.deleteRule(name, 0)
		}
		for _, name := range change.GoneChains {
			b.deleteChain(name)
		}
		for _, name := range change.GoneSets {
			b.deleteSet(name)
		}
		b.finish()
		return c.commit(ctx, b, change.Generation, tally.add)
	})
	return tally.list, err
}

// edit writes the messages that change a chain's rules.
func (c *conn) edit(ctx context.Context, b *batch, e *nft.Edit) error {
	if !isName(e.Chain) {
		return foreign(e.Chain)
	}
	var handles []uint64
	err := c.rules(ctx, b.table, e.Chain, func(attrs []byte) {
		for kind, data := range attributes(attrs) {
			if kind == unix.NFTA_RULE_HANDLE {
				handles = append(handles, be64(data))
			}
		}
	})
	if err != nil {
		return err
	}
	if len(handles) != e.Rules {
		return fmt.Errorf("chain %s has %d rules, not %d: %w", e.Chain, len(handles), e.Rules, unix.ESTALE)
	}
	for _, i := range e.Remove {
		if i < 0 || i >= len(handles) {
			return fmt.Errorf("chain %s has no rule %d: %w", e.Chain, i, unix.EINVAL)
		}
		b.deleteRule(e.Chain, handles[i])
	}
	for _, add := range e.Add {
		before := uint64(0)
		switch {
		case add.Before < 0 || add.Before > len(handles):
			return fmt.Errorf("chain %s has no rule %d: %w", e.Chain, add.Before, unix.EINVAL)
		case add.Before < len(handles):
			before = handles[add.Before]
		}
		if err := b.addRule(e.Chain, add.Rule, before); err != nil {
			return err
		}
	}
	return nil
}

// commit runs a transaction. Its error is ERESTART if anything has changed since the generation. It calls removed with the attributes of
// each removed rule.
func (c *conn) commit(ctx context.Context, b *batch, generation uint32, removed func(attrs []byte)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if removed != nil && !c.enlarged {
		// The notifications about the rules all arrive before the first of them can be read.
		if err := c.option(unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer); err != nil {
			return err
		}
		c.enlarged = true
	}
	first := c.seq
	out := b.numbered(first, generation)
	c.seq += b.count
	if err := c.send(out); err != nil {
		return fmt.Errorf("sending the transaction to the kernel: %w", errno(err))
	}
	for {
		datagram, err := c.read(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the kernel: %w", err)
		}
		for m := range messages(datagram) {
			switch {
			case m.seq <= first || m.seq > c.seq:
			case m.kind == unix.NLMSG_ERROR:
				// The first error comes before all other messages. Notifications come before the acknowledgement.
				if refusal := m.refusal(); refusal != 0 {
					return fmt.Errorf("the kernel refused message %d of the transaction: %w", m.seq-first, refusal)
				}
				return nil
			case m.kind == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELRULE && removed != nil && len(m.body) >= genMsgLen:
				removed(m.body[genMsgLen:])
			}
		}
	}
}

// send enlarges the send buffer if it must: a transaction is a single datagram, however long it is.
func (c *conn) send(out []byte) error {
	if len(out) > c.sendBuffer {
		if err := c.option(unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, len(out)); err != nil {
			return err
		}
		c.sendBuffer = len(out)
	}
	_, err := c.file.Write(out)
	return err
}

// receiveBuffer has room for the notifications about several thousand rules.
const receiveBuffer = 16 << 20

func (c *conn) option(level, name, value int) error {
	var failed error
	err := c.raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, name, value) })
	return errors.Join(err, failed)
}
