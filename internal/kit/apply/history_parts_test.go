package apply

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/parts"
)

// The diff of a text in parts leads from one to the other, as that of the whole text does.
func TestDifferenceOfParts(t *testing.T) {
	chance := rand.New(rand.NewPCG(7, 8))
	part := func() string {
		var b strings.Builder
		for range 1 + chance.IntN(6) {
			fmt.Fprintf(&b, "line %d\n", chance.IntN(50))
		}
		return b.String()
	}
	text := func(list []string) (p parts.Text) {
		for _, s := range list {
			p = append(p, parts.Of([]byte(s)))
		}
		return p
	}
	for range 300 {
		var was []string
		for range chance.IntN(60) {
			was = append(was, part())
		}
		now := slices.Clone(was)
		for range 1 + chance.IntN(5) {
			switch at := chance.IntN(len(now) + 1); {
			case at == len(now) || chance.IntN(3) == 0:
				now = slices.Insert(now, at, part())
			case chance.IntN(2) == 0:
				now = slices.Delete(now, at, at+1)
			default:
				now[at] += part()
			}
		}
		diff := differenceOfParts("before", "after", text(was), text(now))
		from, to := strings.Join(was, ""), strings.Join(now, "")
		if from == to {
			if diff != "" {
				t.Fatalf("nothing differs:\n%s", diff)
			}
			continue
		}
		if got := patched(t, from, diff); got != to {
			t.Fatalf("%s\nby\n%s\nis\n%s\nand not\n%s", from, diff, got, to)
		}
	}
}

// patched applies a diff at the lines that it names.
func patched(t *testing.T, text, diff string) string {
	t.Helper()
	var now strings.Builder
	lines := strings.SplitAfter(text, "\n")
	at := 0
	for line := range strings.Lines(diff) {
		kind, rest := line[0], line[1:]
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
		case kind == '@':
			var from int
			if _, err := fmt.Sscanf(line, "@@ -%d", &from); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, "@@ -0,0") {
				from = 1
			}
			now.WriteString(strings.Join(lines[at:from-1], ""))
			at = from - 1
			var to int
			if _, after, _ := strings.Cut(line, "+"); after[0] != '0' {
				if _, err := fmt.Sscanf(after, "%d", &to); err != nil || to != 1+strings.Count(now.String(), "\n") {
					t.Fatalf("%s\n%s is line %d", diff, line, 1+strings.Count(now.String(), "\n"))
				}
			}
		case kind == '+':
			now.WriteString(rest)
		case lines[at] != rest:
			t.Fatalf("%s\nline %d is %q, and not %q", diff, at+1, lines[at], rest)
		default:
			at++
			if kind == ' ' {
				now.WriteString(rest)
			}
		}
	}
	return now.String() + strings.Join(lines[at:], "")
}
