package filter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
)

// neighbour changes another table as fast as it can, until the test ends.
func neighbour(t *testing.T) {
	t.Helper()
	nftRun(t, "add", "table", "inet", "neighbour")
	nftRun(t, "add", "set", "inet", "neighbour", "blocked", "{ type ipv4_addr; }")
	// Each line of a process's input is a transaction.
	const element = " element inet neighbour blocked { 192.0.2.1 }\n"
	lines := strings.Repeat("add"+element+"delete"+element, 2000)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, "/usr/sbin/nft", "-i")
			cmd.Stdin = strings.NewReader(lines)
			_ = cmd.Run()
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// many returns a table whose dump takes several datagrams.
func many(rules int) string {
	var b strings.Builder
	b.WriteString("table inet gateway\ndelete table inet gateway\ntable inet gateway {\n\tchain c {\n")
	for i := range rules {
		fmt.Fprintf(&b, "\t\tip saddr 192.0.2.1 tcp dport %d counter packets %d bytes 1 accept comment \"gid:%d\"\n", i+1, i, i)
	}
	b.WriteString("\t}\n")
	for i := range 40 {
		fmt.Fprintf(&b, "\tchain c%d {\n\t\tcounter comment \"gid:x\"\n\t}\n", i)
	}
	b.WriteString("}\n")
	return b.String()
}

// Transactions on other tables do not keep the gateway from reading its own.
func TestFilterReadsBesideABusyNeighbour(t *testing.T) {
	s := at("")
	load(t, s, many(600))
	want := digest(t, s)
	neighbour(t)
	moved := func() uint32 {
		state, err := s.FilterState(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return state.Generation
	}
	for began, reads := moved(), 0; reads < 50 || moved() < began+200; reads++ {
		if got := digest(t, s); got != want {
			t.Fatal("the digest changed with another table")
		}
		if got := counters(t, s); len(got) != 601 || got["599"].Packets != 599 {
			t.Fatalf("%d counters, the last %+v", len(got), got["599"])
		}
	}
}

// The digest of a file does not depend on the loaded table, and is the digest of the table that it becomes.
func TestFilterDigestOf(t *testing.T) {
	s := at("")
	file := func(elements string) host.File {
		content := strings.Replace(fmt.Sprintf(table, "x"), "192.0.2.0/24, 198.51.100.7", elements, 1)
		return host.File{Place: nftables.Table, Content: []byte(content)}
	}
	of := func(f host.File) string {
		t.Helper()
		d, err := s.FilterDigestOf(t.Context(), f)
		if err != nil || d == "" {
			t.Fatalf("digest %q, %v", d, err)
		}
		return d
	}
	first := file("192.0.2.0/24, 198.51.100.7")
	want := of(first)
	if state, err := s.FilterState(t.Context()); err != nil || state.Present {
		t.Fatalf("the table was loaded: %+v %v", state, err)
	}
	load(t, s, string(first.Content))
	if digest(t, s) != want {
		t.Error("the digest of the loaded table differs from that of its file")
	}
	// A refilled set has the same digest as one that was loaded with the elements.
	nftRun(t, "flush set inet gateway hosts; add element inet gateway hosts { 203.0.113.0/24, 192.0.2.9 }")
	if second := of(file("203.0.113.0/24, 192.0.2.9")); second == want || digest(t, s) != second {
		t.Error("refilled sets differ from loaded ones")
	}
	nftRun(t, "add", "rule", "inet", "gateway", "unused", "accept")
	if digest(t, s) == of(file("203.0.113.0/24, 192.0.2.9")) {
		t.Error("a foreign rule does not change the digest")
	}
	if _, err := s.FilterDigestOf(t.Context(), host.File{Place: nftables.Table, Content: []byte("nonsense")}); err == nil {
		t.Error("nonsense has a digest")
	}
	if _, err := at(t.TempDir()).FilterDigestOf(t.Context(), first); !errors.Is(err, host.ErrNotInstalled) {
		t.Errorf("under a root: %v", err)
	}
}

// Every transaction is reported, even one with thousands of rules.
func TestFilterChanges(t *testing.T) {
	s := at("")
	ctx, stop := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- s.FilterChanges(ctx, func() {
			select {
			case changes <- struct{}{}:
			default:
			}
		})
	}()
	wait := func(what string) {
		t.Helper()
		select {
		case <-changes:
		case err := <-ended:
			t.Fatalf("%s: %v", what, err)
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: no change was reported", what)
		}
	}
	wait("the start")
	path := t.TempDir() + "/table"
	if err := os.WriteFile(path, []byte(many(10000)), 0o600); err != nil {
		t.Fatal(err)
	}
	nftRun(t, "-f", path)
	wait("a large table")
	nftRun(t, "add", "table", "ip", "neighbour")
	wait("another table")
	loadOwn(t, s) // nobody is subscribed in the meantime
	wait("a table of our own")
	nftRun(t, "flush", "ruleset")
	wait("an empty ruleset")
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if err := at(t.TempDir()).FilterChanges(t.Context(), func() {}); !errors.Is(err, host.ErrNotInstalled) {
		t.Errorf("under a root: %v", err)
	}
}
