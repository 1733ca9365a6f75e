package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"edge.internal/gateway/internal/kit/waittest"
)

// buffer is a bytes.Buffer that can be written and read concurrently.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestLastLines(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.log"), filepath.Join(dir, "two.log")
	appendTo(t, one, strings.Repeat("old\n", 100_000)+"a\nb\nc\n")
	appendTo(t, two, "x\nunfinished")
	var out bytes.Buffer
	if err := printLogs(t.Context(), &out, []string{one, two}, 2, false); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%-18s b\n%-18s c\n%-18s x\n", "one", "one", "two")
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestFollowAcrossRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unit.log")
	appendTo(t, path, "1\n2\n")
	ctx, cancel := context.WithCancel(t.Context())
	var out buffer
	done := make(chan error)
	go func() { done <- printLogs(ctx, &out, []string{path}, 1, true) }()
	expect := func(want string) {
		t.Helper()
		waittest.UntilNil(t, fmt.Sprintf("%q is printed", want), func() error {
			if got := out.String(); got != want {
				return fmt.Errorf("%q", got)
			}
			return nil
		})
	}
	expect("2\n")
	appendTo(t, path, "3\n4")
	expect("2\n3\n")
	appendTo(t, path, "4\n")
	expect("2\n3\n44\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, "5\n")
	expect("2\n3\n44\n5\n")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
