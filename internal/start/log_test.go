package start

import (
	"log/slog"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/google/go-cmp/cmp"
)

func TestJournalEntry(t *testing.T) {
	h := (&journalHandler{program: "gateway-api"}).WithAttrs([]slog.Attr{slog.String("component", "ntp")}).(*journalHandler)
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "not applied", 0)
	r.AddAttrs(slog.String("request_id", "01J"), slog.String("actor", "admin@example.net"), slog.String("err", "no such\nfile"))
	text, fields := h.entry(t.Context(), r)
	if want := `not applied component=ntp request_id=01J actor=admin@example.net err="no such\nfile"`; text != want {
		t.Errorf("%s, want %s", text, want)
	}
	want := map[string]string{"SYSLOG_IDENTIFIER": "gateway-api", "COMPONENT": "ntp", "REQUEST_ID": "01J", "ACTOR": "admin@example.net"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
	for level, want := range map[slog.Level]journal.Priority{slog.LevelDebug: journal.PriDebug, slog.LevelInfo: journal.PriInfo, slog.LevelWarn: journal.PriWarning, slog.LevelError: journal.PriErr} {
		if got := priority(level); got != want {
			t.Errorf("%s has priority %d, want %d", level, got, want)
		}
	}
}
