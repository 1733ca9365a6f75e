package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
)

// chronicled returns what a search of the chronicle finds.
func chronicled(t *testing.T, s *supervisor, q host.JournalQuery) (texts []string, place host.JournalPlace) {
	t.Helper()
	q.Level = host.LevelDebug
	err := s.SearchJournal(t.Context(), q, func(batch []host.JournalEntry, at host.JournalPlace) {
		for _, e := range batch {
			texts = append(texts, e.Text)
		}
		place = at
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts, place
}

func newChronicler(t *testing.T) *supervisor {
	return &supervisor{logs: newChronicle(filepath.Join(t.TempDir(), "chronicle.jsonl"))}
}

// In a lab, the supervisor's chronicle takes the place of journald: this tests the implementation without a journal.
func TestLabJournalIsTheSupervisorsChronicle(t *testing.T) {
	s := newChronicler(t)
	dns, time := s.logs.of(unbound.Unit), s.logs.of(chrony.Unit)
	fmt.Fprint(dns, "one\ntwo")
	fmt.Fprint(time, "other\n")
	fmt.Fprint(dns, " and a half\r\n\n")
	q := host.JournalQuery{Sources: []host.LogSource{unbound.LogSource}}
	got, place := chronicled(t, s, q)
	if strings.Join(got, "|") != "two and a half|one" {
		t.Fatalf("%q", got)
	}
	q.Before = place.Cursor
	if got, _ := chronicled(t, s, q); len(got) != 0 {
		t.Fatalf("%q is older than the oldest", got)
	}
	q = host.JournalQuery{Sources: []host.LogSource{unbound.LogSource, chrony.LogSource}, Limit: 1}
	for _, want := range []string{"two and a half", "other", "one"} {
		got, place := chronicled(t, s, q)
		if len(got) != 1 || got[0] != want {
			t.Fatalf("%q instead of %s", got, want)
		}
		q.Before = place.Cursor
	}
}

// A line that does not end is broken, and what is kept of a line is bounded.
func TestLabJournalBreaksLongLines(t *testing.T) {
	s := newChronicler(t)
	fmt.Fprint(s.logs.of(unbound.Unit), strings.Repeat("x", 2*longestLine+10), "\nend\n")
	got, _ := chronicled(t, s, host.JournalQuery{Sources: []host.LogSource{unbound.LogSource}})
	if len(got) != 4 || got[0] != "end" || len(got[1]) != 10 || len(got[2]) != host.LongestText {
		t.Fatalf("%d lines", len(got))
	}
}

func TestLabJournalGoesBackToTheOlderFile(t *testing.T) {
	s := newChronicler(t)
	s.logs.file.most = 4 << 10
	w := s.logs.of(unbound.Unit)
	for i := range 100 {
		fmt.Fprintf(w, "line %d\n", i)
	}
	got, _ := chronicled(t, s, host.JournalQuery{Sources: []host.LogSource{unbound.LogSource}})
	for i, text := range got {
		if text != fmt.Sprintf("line %d", 99-i) {
			t.Fatalf("%d: %s", i, text)
		}
	}
	if len(got) < 60 {
		t.Errorf("%d lines are kept", len(got))
	}
}

func TestLabJournalIsFollowed(t *testing.T) {
	s := newChronicler(t)
	w := s.logs.of(unbound.Unit)
	fmt.Fprint(w, "earlier\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- s.FollowJournal(ctx, host.JournalQuery{Sources: []host.LogSource{unbound.LogSource}, Level: host.LevelDebug, Since: time.Now().Add(-time.Minute)}, func(batch []host.JournalEntry) {
			for _, e := range batch {
				got <- e.Text
			}
		})
	}()
	if text := <-got; text != "earlier" {
		t.Fatal(text)
	}
	fmt.Fprint(w, "later\n")
	if text := <-got; text != "later" {
		t.Fatal(text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The lines of the gateway's own programs look as they do in the journal.
func TestLabJournalOfOwnPrograms(t *testing.T) {
	s := newChronicler(t)
	fmt.Fprintln(s.logs.of(host.API), `time=2026-01-01T00:00:00.000Z level=WARN msg="the \"disk\" is full" component=ntp request_id=01J err="no space"`)
	var got []host.JournalEntry
	err := s.SearchJournal(t.Context(), host.JournalQuery{Sources: []host.LogSource{host.APILogSource}, Level: host.LevelWarn}, func(batch []host.JournalEntry, _ host.JournalPlace) { got = append(got, batch...) })
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if e := got[0]; e.Text != `the "disk" is full component=ntp request_id=01J err="no space"` || e.Level != host.LevelWarn ||
		!slices.Contains(e.Fields, host.JournalField{Name: "request_id", Value: "01J"}) || !slices.Contains(e.Fields, host.JournalField{Name: "component", Value: "ntp"}) {
		t.Errorf("%+v", e)
	}
}
