package squid

import (
	"errors"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

func TestSquidIsNotRunning(t *testing.T) {
	s := New(home.Home{})
	if _, _, err := s.SquidReport(t.Context(), Counters); !errors.Is(err, daemon.ErrNotRunning) {
		t.Errorf("report: %v", err)
	}
	elsewhere := New(home.Home{Root: t.TempDir(), Foreign: true})
	if _, _, err := elsewhere.SquidReport(t.Context(), Counters); !errors.Is(err, daemon.ErrNotInstalled) {
		t.Errorf("report of the machine's own squid: %v", err)
	}
	if _, err := elsewhere.SquidJudge(t.Context(), true); !errors.Is(err, daemon.ErrNotRunning) {
		t.Errorf("judge: %v", err)
	}
}

func TestJudgeAnswers(t *testing.T) {
	if j, err := parseJudge("ok mark digest\n"); err != nil || j != (Judge{Configuration: "mark", List: "digest"}) {
		t.Errorf("%+v, %v", j, err)
	}
	for answer, want := range map[string]string{
		"error no list\n": "the judge of the access list says: no list",
		"":                "the judge of the access list says: ",
		"ok a\n":          "the judge of the access list says: ok a",
	} {
		if _, err := parseJudge(answer); err == nil || err.Error() != want {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
