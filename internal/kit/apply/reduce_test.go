package apply_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
)

// Only what the checker has not accepted yet is checked. What the daemon did not take although it was accepted is no base for that.
func TestCheckIsReducedToTheChange(t *testing.T) {
	t.Parallel()
	var staged []string
	x := newToy(t, func(x *toy) {
		x.reduce = func(was []string, accepted []host.File, now []string, files []host.File) []host.File {
			if string(accepted[0].Content) != strings.Join(was, "\n")+"\n" || string(files[0].Content) != strings.Join(now, "\n")+"\n" {
				t.Errorf("%q of %q, %q of %q", accepted[0].Content, was, files[0].Content, now)
			}
			news := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(was, line) })
			return []host.File{{Place: chrony.DropIn, Content: []byte(strings.Join(news, "\n"))}}
		}
		x.Machine.Script(chrony.Check, func(_ context.Context, in host.Input) (host.Output, error) {
			text := string(in.Staged[0].Content)
			x.set(func() { staged = append(staged, text) })
			if strings.Contains(text, "bad") {
				return host.Output{Stderr: "bad line", ExitCode: 1}, nil
			}
			return host.Output{}, nil
		})
	})
	checked := func(want string) {
		t.Helper()
		x.set(func() {
			if n := len(staged); n == 0 || staged[n-1] != want {
				t.Errorf("%q was checked last of %q", want, staged)
			}
		})
	}
	x.want(t, "a", apply.Live)
	x.want(t, "b", apply.Live)
	checked("b")
	if _, err := x.add(t, "bad"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "bad line") {
		t.Errorf("a bad change: %v", err)
	}
	checked("bad")
	x.want(t, "c", apply.Live)
	checked("c")
	_, err := x.Engine.Preview(t.Context(), []apply.ID{apply.NTP}, nil, func(tx *db.Tx) ([]apply.Row, error) {
		_, err := tx.Exec(t.Context(), `INSERT INTO toy_lines VALUES ('p')`)
		return nil, err
	})
	if err != nil {
		t.Error(err)
	}
	checked("a\nb\nc\np\n")
	x.want(t, "d", apply.Live)
	checked("d")
	x.Machine.Refuse(chrony.Unit, errors.New("exit status 1"))
	x.want(t, "e", apply.Degraded)
	x.Machine.Refuse(chrony.Unit, nil)
	x.want(t, "f", apply.Live)
	x.set(func() {
		if !slices.Contains(staged, "a\nb\nc\nd\ne\nf\n") {
			t.Errorf("after a failure only %q were checked", staged)
		}
	})
}
