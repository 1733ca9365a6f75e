package job

import (
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
)

// outputLimit limits the output of a step that is kept: its end, where errors are.
const outputLimit = 16 << 10

type tail struct {
	mu   sync.Mutex
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - outputLimit; over > 0 {
		t.kept, t.cut = append(t.kept[:0], t.kept[over:]...), true
	}
	return len(p), nil
}

// String returns the kept output, starting with a complete line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(string(t.kept), "?")
	if t.cut {
		_, text, _ = strings.Cut(text, "\n")
		text = "…\n" + text
	}
	return text
}

type tailKey struct{}

// Output returns the writer for the output of a step's programs.
func Output(ctx context.Context) io.Writer {
	if t, ok := ctx.Value(tailKey{}).(*tail); ok {
		return t
	}
	return io.Discard
}

// credentials matches passwords in a URL: before its host, or as a parameter.
var credentials = regexp.MustCompile(`(://)[^/\s@]+@|([?&]password=)[^&\s]+`)

// Hide removes the passwords of repositories and databases from the output of programs.
func Hide(text string) string { return credentials.ReplaceAllString(text, "${1}${2}…") }
