package nfnl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

// Attributes that golang.org/x/sys does not name.
const (
	tableHandle   = 4 // NFTA_TABLE_HANDLE
	tableUserdata = 6 // NFTA_TABLE_USERDATA
	chainFlags    = 10
	chainUserdata = 12
)

// attempts is how often a read begins again because the tables changed meanwhile.
const attempts = 8

var errRestless = errors.New("the packet filter changes faster than it can be read")

// ReadState reads the state of a table of the inet family.
func (s *Socket) ReadState(ctx context.Context, table string) (host.FilterState, error) {
	var state host.FilterState
	err := s.ask(ctx, func(c *conn) (err error) {
		// The generation is read first: a change between both makes the state look older than it is, and is seen next time.
		if state.Generation, err = c.generation(ctx); err != nil {
			return err
		}
		c.beginTable(unix.NFT_MSG_GETTABLE, askFlags)
		c.text(unix.NFTA_TABLE_NAME, table)
		err = c.exchange(ctx, func(uint16, []byte) { state.Present = true })
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	})
	return state, err
}

func (c *conn) beginTable(kind, flags uint16) {
	c.begin(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, unix.NFPROTO_INET, 0)
}

func (c *conn) generation(ctx context.Context) (gen uint32, err error) {
	c.begin(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, askFlags, unix.NFPROTO_UNSPEC, 0)
	err = c.exchange(ctx, func(_ uint16, attrs []byte) {
		for kind, data := range attributes(attrs) {
			if kind == unix.NFTA_GEN_ID {
				gen = be32(data)
			}
		}
	})
	return gen, err
}

// handle is the number that the kernel gives to each table that is made; zero when there is no such table. Unlike the
// generation it says nothing about the tables of others.
func (c *conn) handle(ctx context.Context, table string) (handle uint64, err error) {
	c.beginTable(unix.NFT_MSG_GETTABLE, askFlags)
	c.text(unix.NFTA_TABLE_NAME, table)
	err = c.exchange(ctx, func(_ uint16, attrs []byte) {
		for kind, data := range attributes(attrs) {
			if kind == tableHandle {
				handle = be64(data)
			}
		}
	})
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	return handle, err
}

// settled runs a read until the table was not replaced meanwhile: several dumps are of one table only then. Transactions on the
// tables of others do not matter, nor that the kernel marks a dump that one of them fell into. It returns the table's handle.
func (c *conn) settled(ctx context.Context, table string, read func() error) (uint64, error) {
	for range attempts {
		before, err := c.handle(ctx, table)
		if err != nil {
			return 0, err
		}
		if err := c.awaitTransaction(); err != nil {
			return 0, err
		}
		// A table that was replaced meanwhile may answer that a part of it does not exist.
		failed := read()
		if failed != nil && !errors.Is(failed, unix.ENOENT) {
			return 0, failed
		}
		after, err := c.handle(ctx, table)
		if err != nil {
			return 0, err
		}
		if before == after && (failed == nil || after == 0) {
			return after, nil
		}
	}
	return 0, errRestless
}

// awaitTransaction returns when the transaction that is under way has ended. At its end there is a moment in which the new table is the
// one that decides and the old one is still found first: who asks for the rules of a chain is then told that it has none. The kernel
// begins a transaction, even one without content, when the last one is over, and returns when it has dealt with it.
func (c *conn) awaitTransaction() error {
	c.begin(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	binary.NativeEndian.PutUint32(c.out, uint32(len(c.out)))
	first := slices.Clone(c.out)
	c.begin(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	binary.NativeEndian.PutUint32(c.out, uint32(len(c.out)))
	if _, err := c.file.Write(append(first, c.out...)); err != nil {
		return fmt.Errorf("waiting for the packet filter's transaction: %w", errno(err))
	}
	return nil
}

// chains lists the names of the chains of a table in the kernel's order; seen gets the attributes of each. How often a chain
// is used is not asked: while a transaction is under way that takes its rules away, the kernel says never, and the rules
// still decide. A chain can come twice: in a list that takes several datagrams, the kernel counts from the second one on those
// of a table that was just replaced, too, and so begins too early.
func (c *conn) chains(ctx context.Context, table string, seen func(attrs []byte)) ([]string, error) {
	var list []string
	told := map[string]bool{}
	c.beginTable(unix.NFT_MSG_GETCHAIN, dumpFlags)
	c.text(unix.NFTA_CHAIN_TABLE, table)
	err := c.exchange(ctx, func(_ uint16, attrs []byte) {
		name, own := "", false
		for kind, data := range attributes(attrs) {
			switch kind {
			case unix.NFTA_CHAIN_TABLE: // older kernels list the chains of all tables
				own = string(cString(data)) == table
			case unix.NFTA_CHAIN_NAME:
				name = string(cString(data))
			}
		}
		if own && !told[name] {
			told[name] = true
			list = append(list, name)
			seen(attrs)
		}
	})
	return list, err
}

// rules hands the attributes of each rule of a chain to the function, in order.
func (c *conn) rules(ctx context.Context, table, chain string, seen func(attrs []byte)) error {
	c.beginTable(unix.NFT_MSG_GETRULE, dumpFlags)
	c.text(unix.NFTA_RULE_TABLE, table)
	c.text(unix.NFTA_RULE_CHAIN, chain)
	return c.exchange(ctx, func(_ uint16, attrs []byte) { seen(attrs) })
}

// Counters are what the rules of a table counted.
type Counters struct {
	// Table tells tables apart: one that was replaced has another number, though not after a reboot. It is zero when there is no table.
	Table uint64
	List  []host.FilterCounter
}

// ReadCounters reads the counters of all rules of a table whose comment begins with the prefix. Rules with the same comment
// are one entry. A missing table has none.
func (s *Socket) ReadCounters(ctx context.Context, table, prefix string) (Counters, error) {
	var tally tally
	var handle uint64
	err := s.ask(ctx, func(c *conn) (err error) {
		handle, err = c.settled(ctx, table, func() error {
			tally.reset(prefix)
			chains, err := c.chains(ctx, table, func([]byte) {})
			if err != nil {
				return err
			}
			for _, name := range chains {
				if err := c.rules(ctx, table, name, tally.add); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
	return Counters{handle, tally.list}, err
}

// tally sums counters by tag.
type tally struct {
	prefix string
	index  map[string]int // tag → place in list
	list   []host.FilterCounter
}

func (t *tally) reset(prefix string) {
	t.prefix, t.index, t.list = prefix, make(map[string]int, len(t.index)), t.list[:0]
}

func (t *tally) add(rule []byte) {
	var expressions, userdata []byte
	for kind, data := range attributes(rule) {
		switch kind {
		case unix.NFTA_RULE_EXPRESSIONS:
			expressions = data
		case unix.NFTA_RULE_USERDATA:
			userdata = data
		}
	}
	tag := comment(userdata)
	if len(tag) < len(t.prefix) || string(tag[:len(t.prefix)]) != t.prefix {
		return
	}
	tag = tag[len(t.prefix):]
	packets, bytes, ok := counterOf(expressions)
	if !ok {
		return
	}
	i, known := t.index[string(tag)]
	if !known {
		i = len(t.list)
		name := string(tag)
		t.index[name] = i
		t.list = append(t.list, host.FilterCounter{Tag: name})
	}
	t.list[i].Packets += packets
	t.list[i].Bytes += bytes
}

// counterOf finds the counter among the expressions of a rule.
func counterOf(expressions []byte) (packets, bytes uint64, ok bool) {
	for _, expression := range attributes(expressions) {
		name, data := expressionOf(expression)
		if string(name) != "counter" {
			continue
		}
		for kind, value := range attributes(data) {
			switch kind {
			case unix.NFTA_COUNTER_PACKETS:
				packets = be64(value)
			case unix.NFTA_COUNTER_BYTES:
				bytes = be64(value)
			}
		}
		return packets, bytes, true
	}
	return 0, 0, false
}

// expressionOf splits an expression into its name and its attributes.
func expressionOf(b []byte) (name, data []byte) {
	for kind, value := range attributes(b) {
		switch kind {
		case unix.NFTA_EXPR_NAME:
			name = cString(value)
		case unix.NFTA_EXPR_DATA:
			data = value
		}
	}
	return name, data
}
