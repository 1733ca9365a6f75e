// Package conntrack reads the kernel's connection tracking table, and removes connections from it.
package conntrack

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/filter/nfnl"
)

const (
	// answersWithin bounds reading the whole table.
	answersWithin = 10 * time.Second
	maxPage       = 1000
)

type Table struct {
	home      home.Home
	netfilter nfnl.Socket
}

func New(h home.Home) *Table { return &Table{home: h} }

func (t *Table) Connections(ctx context.Context, q host.ConnectionQuery) (page host.ConnectionPage, err error) {
	if err := t.home.Here("connection tracking"); err != nil {
		return page, err
	}
	if q.Limit < 1 || q.Limit > maxPage {
		return page, fmt.Errorf("a page of %d connections: must have between 1 and %d", q.Limit, maxPage)
	}
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	var first firsts
	err = t.netfilter.Connections(ctx, func(c *host.Connection) {
		page.Total++
		if !q.Matches(c) {
			return
		}
		page.Matching++
		if q.After == nil || c.Compare(*q.After) > 0 {
			first.add(c, q.Limit+1)
		}
	})
	if err != nil {
		return host.ConnectionPage{}, fmt.Errorf("reading the table of connections: %w", err)
	}
	page.List = first
	slices.SortFunc(page.List, func(a, b host.Connection) int { return a.Compare(b.ConnectionKey) })
	if page.More = len(page.List) > q.Limit; page.More {
		page.List = page.List[:q.Limit]
	}
	return page, nil
}

// accounting turns counting the bytes of connections on or off.
const accounting = "/proc/sys/net/netfilter/nf_conntrack_acct"

// Traffic adds up the traffic of the connections from and to addresses.
func (t *Table) Traffic(ctx context.Context, of []netip.Addr) (host.Traffic, error) {
	if err := t.home.Here("connection tracking"); err != nil {
		return host.Traffic{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	counts := host.NewTrafficOf(of)
	if err := t.netfilter.Connections(ctx, counts.Add); err != nil {
		return host.Traffic{}, fmt.Errorf("reading the table of connections: %w", err)
	}
	on, err := os.ReadFile(accounting)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it does not exist before the first connection is tracked
		return host.Traffic{}, err
	}
	return host.Traffic{Counted: strings.TrimSpace(string(on)) == "1", List: counts.List()}, nil
}

func (t *Table) EndConnection(ctx context.Context, k host.ConnectionKey) error {
	if err := t.home.Here("connection tracking"); err != nil {
		return err
	}
	if !k.Source.IsValid() || k.Source.Is4() != k.Destination.Is4() {
		return fmt.Errorf("a connection from %s to %s: %w", k.Source, k.Destination, fs.ErrNotExist)
	}
	err := t.netfilter.EndConnection(ctx, k)
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing a connection: %w", fs.ErrNotExist)
	}
	return err
}

// firsts is a heap of the first connections in the order of their keys, the last of them on top. The whole table is never in memory.
type firsts []host.Connection

func (f firsts) Len() int           { return len(f) }
func (f firsts) Less(i, j int) bool { return f[i].Compare(f[j].ConnectionKey) > 0 }
func (f firsts) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *firsts) Push(x any)        { *f = append(*f, *x.(*host.Connection)) }
func (f *firsts) Pop() any          { last := len(*f) - 1; *f = (*f)[:last]; return nil }

// add keeps a connection if it is among the first most.
func (f *firsts) add(c *host.Connection, most int) {
	switch {
	case len(*f) < most:
		heap.Push(f, c)
	case c.Compare((*f)[0].ConnectionKey) < 0:
		(*f)[0] = *c
		heap.Fix(f, 0)
	}
}
