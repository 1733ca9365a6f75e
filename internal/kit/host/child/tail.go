package child

import (
	"io"
	"strings"
	"sync"
)

// tailSize is how much of the end a Tail keeps.
const tailSize = 4096

// Tail passes on what a child says and keeps the end of it, for messages.
type Tail struct {
	Next io.Writer // may be nil

	mu   sync.Mutex
	kept []byte
}

// Write never fails: a full disk must not stop the child.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.mu.Unlock()
	if t.Next != nil {
		_, _ = t.Next.Write(p)
	}
	return len(p), nil
}

// LastLines is the end of what the child said, on one line.
func (t *Tail) LastLines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}
