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

// Constants that golang.org/x/sys does not have.
const (
	tableHandle   = 4 // NFTA_TABLE_HANDLE
	tableUserdata = 6 // NFTA_TABLE_USERDATA
	chainFlags    = 10
	chainUserdata = 12
)

// attempts is how often an operation is tried if the tables change in the meantime.
const attempts = 8

var errUnstable = errors.New("the packet filter changes faster than it can be read")

// ReadState reads the state of a table of the inet family.
func (s *Socket) ReadState(ctx context.Context, table string) (host.FilterState, error) {
	var state host.FilterState
	err := s.use(ctx, func(c *conn) (err error) {
		// The generation is read first: after a change in between, the state looks older than it is, and the change is noticed next time.
		if state.Generation, err = c.generation(ctx); err != nil {
			return err
		}
		c.beginTable(unix.NFT_MSG_GETTABLE, requestFlags)
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
	c.begin(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, requestFlags, unix.NFPROTO_UNSPEC, 0)
	err = c.exchange(ctx, func(_ uint16, attrs []byte) {
		for kind, data := range attributes(attrs) {
			if kind == unix.NFTA_GEN_ID {
				gen = be32(data)
			}
		}
	})
	return gen, err
}

// handle returns the number that the kernel gives to each new table; zero if there is no such table. Unlike the generation, it does not
// change with other tables.
func (c *conn) handle(ctx context.Context, table string) (handle uint64, err error) {
	c.beginTable(unix.NFT_MSG_GETTABLE, requestFlags)
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

// settled repeats a read until the table was not replaced in the meantime: only then are several dumps from the same table. Transactions
// on other tables do not matter, even if the kernel marks a dump as interrupted by one. It returns the table's handle.
func (c *conn) settled(ctx context.Context, table string, read func() error) (uint64, error) {
	for range attempts {
		before, err := c.handle(ctx, table)
		if err != nil {
			return 0, err
		}
		if err := c.awaitTransaction(); err != nil {
			return 0, err
		}
		// If the table was replaced in the meantime, a part of it may be missing.
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
	return 0, errUnstable
}

// awaitTransaction waits until the running transaction has ended. Near its end there is a moment when the new table is in force but the
// old one is still found first, so that a dump of a chain's rules is empty. The kernel runs one transaction after the other, even an empty
// one, and the write returns when it is done.
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

// chains lists the names of a table's chains in the kernel's order, and calls seen with the attributes of each. It does not rely on a
// chain's use count: during a transaction that deletes its rules, the kernel reports zero although the rules are still in force. A chain
// can come twice: in a list of several datagrams, the kernel counts the chains of a table that was just replaced from the second datagram
// on, and so starts too early.
func (c *conn) chains(ctx context.Context, table string, seen func(attrs []byte)) ([]string, error) {
	var list []string
	listed := map[string]bool{}
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
		if own && !listed[name] {
			listed[name] = true
			list = append(list, name)
			seen(attrs)
		}
	})
	return list, err
}

// rules calls seen with the attributes of each rule of a chain, in order.
func (c *conn) rules(ctx context.Context, table, chain string, seen func(attrs []byte)) error {
	c.beginTable(unix.NFT_MSG_GETRULE, dumpFlags)
	c.text(unix.NFTA_RULE_TABLE, table)
	c.text(unix.NFTA_RULE_CHAIN, chain)
	return c.exchange(ctx, func(_ uint16, attrs []byte) { seen(attrs) })
}

type Counters struct {
	// Table identifies the table: its replacement has another number, but numbers repeat after a reboot. It is zero if there is no table.
	Table uint64
	List  []host.FilterCounter
}

// ReadCounters reads the counters of all rules of a table whose comments begin with the prefix. It adds up rules with the same comment. A
// missing table has none.
func (s *Socket) ReadCounters(ctx context.Context, table, prefix string) (Counters, error) {
	var tally tally
	var handle uint64
	err := s.use(ctx, func(c *conn) (err error) {
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
