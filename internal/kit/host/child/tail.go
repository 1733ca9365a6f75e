package child

import (
	"io"
	"regexp"
	"strings"
	"sync"
)

// tailSize is how many bytes a Tail keeps.
const tailSize = 4096

// Tail passes on a child's output and keeps the end of it, for error messages.
type Tail struct {
	Next io.Writer // may be nil

	mu   sync.Mutex
	kept []byte
}

// Write never fails, because a full disk must not stop the child.
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

// stamp matches the time with which many daemons begin a line.
var stamp = regexp.MustCompile(`^\d{4}-\d\d-\d\d[T ][0-9:.,]+(Z|[+-]\d\d:?\d\d)? *`)

// LastLines returns the last five lines joined into one, without timestamps.
func (t *Tail) LastLines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	lines = lines[max(0, len(lines)-5):]
	for i, line := range lines {
		lines[i] = stamp.ReplaceAllString(line, "")
	}
	return strings.Join(lines, "; ")
}
