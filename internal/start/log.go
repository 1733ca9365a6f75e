package start

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
)

// NewLog returns a logger that writes to the journal if systemd runs the program, and otherwise lines of text.
func NewLog(level slog.Level) *slog.Logger {
	if ok, err := journal.StderrIsJournalStream(); err == nil && ok {
		return slog.New(&journalHandler{level: level, program: filepath.Base(os.Args[0])})
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// journalFields are the attributes that also become fields of a journal entry, so that entries can be filtered by them.
var journalFields = map[string]string{"component": "COMPONENT", "request_id": "REQUEST_ID", "actor": "ACTOR"}

// journalHandler writes each record as one journal entry, with its level as the priority.
type journalHandler struct {
	level   slog.Level
	program string
	attrs   []slog.Attr
}

func (h *journalHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return &with
}

// WithGroup does nothing: no program of the gateway groups attributes.
func (h *journalHandler) WithGroup(string) slog.Handler { return h }

func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	text, fields := h.entry(ctx, r)
	return journal.Send(text, priority(r.Level), fields)
}

func (h *journalHandler) entry(ctx context.Context, r slog.Record) (text string, fields map[string]string) {
	fields = map[string]string{"SYSLOG_IDENTIFIER": h.program}
	note := func(a slog.Attr) bool {
		if name, ok := journalFields[a.Key]; ok {
			fields[name] = a.Value.String()
		}
		return true
	}
	for _, a := range h.attrs {
		note(a)
	}
	r.Attrs(note)
	// The journal has the time and the level already.
	var rest bytes.Buffer
	plain := slog.NewTextHandler(&rest, &slog.HandlerOptions{Level: h.level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey {
			return slog.Attr{}
		}
		return a
	}})
	_ = plain.WithAttrs(h.attrs).Handle(ctx, r)
	return strings.TrimSpace(r.Message + " " + rest.String()), fields
}

func priority(level slog.Level) journal.Priority {
	switch {
	case level >= slog.LevelError:
		return journal.PriErr
	case level >= slog.LevelWarn:
		return journal.PriWarning
	case level >= slog.LevelInfo:
		return journal.PriInfo
	}
	return journal.PriDebug
}
