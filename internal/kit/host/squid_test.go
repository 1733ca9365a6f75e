package host

import (
	"errors"
	"testing"
)

func TestSquidThatDoesNotRun(t *testing.T) {
	s := newSystem(t, "")
	if _, _, err := s.SquidReport(t.Context(), SquidCounters); !errors.Is(err, ErrNotRunning) {
		t.Errorf("report: %v", err)
	}
	elsewhere := newSystem(t, t.TempDir())
	if _, _, err := elsewhere.SquidReport(t.Context(), SquidCounters); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("report of the machine's own squid: %v", err)
	}
	if _, err := elsewhere.SquidJudge(t.Context(), true); !errors.Is(err, ErrNotRunning) {
		t.Errorf("judge: %v", err)
	}
}

func TestJudgeAnswers(t *testing.T) {
	if j, err := parseJudge("ok mark digest\n"); err != nil || j != (SquidJudge{"mark", "digest"}) {
		t.Errorf("%+v, %v", j, err)
	}
	for said, want := range map[string]string{
		"error no list\n": "the judge of the access list says: no list",
		"":                "the judge of the access list says: ",
		"ok a\n":          "the judge of the access list says: ok a",
	} {
		if _, err := parseJudge(said); err == nil || err.Error() != want {
			t.Errorf("%q: %v", said, err)
		}
	}
}
