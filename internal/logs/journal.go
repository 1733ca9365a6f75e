package logs

import (
	"context"
	"maps"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
)

// logSources returns the selected sources in the journal.
func (f filter) logSources() []host.LogSource {
	var list []host.LogSource
	for _, s := range f.sources {
		list = append(list, s.logs...)
	}
	return list
}

func (f filter) query(sources []host.LogSource) host.JournalQuery {
	return host.JournalQuery{Sources: sources, Level: f.level, Words: f.words, Since: f.since, Until: f.until}
}

func (r *Room) readJournal(ctx context.Context, f filter, sources []host.LogSource, from string, emit func(step)) error {
	q := f.query(sources)
	q.Before, q.Limit = from, f.limit
	names := r.domains(ctx)
	count := 0
	err := r.Host.SearchJournal(ctx, q, func(batch []host.JournalEntry, at host.JournalPlace) {
		s := step{at: at.At, place: at.Cursor}
		if s.place == "" {
			s.place = from
		}
		for _, e := range batch {
			s.entries = append(s.entries, found{journalEntry(e, names), e.Cursor})
		}
		count += len(batch)
		emit(s)
	})
	if err == nil && count >= f.limit {
		<-ctx.Done() // the page is full: the next one finds out whether there is more
	}
	return err
}

// journalEntry converts an entry of the journal.
func journalEntry(e host.JournalEntry, domains map[uuid.UUID]string) Entry {
	entry := Entry{ID: e.Cursor, Time: e.At, Source: sourceOf[string(e.Source)], Level: levels[e.Level], Text: e.Text, Cut: e.Cut, Fields: map[string]string{}}
	for _, f := range e.Fields {
		entry.Fields[f.Name] = f.Value
	}
	if e.Source == haproxy.RequestsLogSource {
		maps.Copy(entry.Fields, requestFields(e.Text, domains))
	}
	return entry
}

// requestFields parses a line of the reverse proxy about a request.
func requestFields(line string, domains map[uuid.UUID]string) map[string]string {
	fields := map[string]string{}
	set := func(name, value string) {
		if value != "" && value != "-" && value != "-1" {
			fields[name] = value
		}
	}
	before, asked, _ := strings.Cut(line, ` "`)
	asked, own, _ := strings.Cut(asked, `" `)
	f := strings.Fields(before)
	if len(f) < 8 {
		return fields
	}
	if i := strings.LastIndexByte(f[0], ':'); i > 0 {
		set("client", f[0][:i])
	}
	set("frontend", strings.TrimSuffix(f[2], "~"))
	backend, server, _ := strings.Cut(f[3], "/")
	set("backend", backend)
	set("server", server)
	if times := strings.Split(f[4], "/"); len(times) == 5 {
		set("duration_ms", times[4])
	}
	set("status", f[5])
	set("bytes", f[6])
	method, rest, _ := strings.Cut(strings.TrimSuffix(asked, `"`), " ")
	path, version, _ := strings.Cut(rest, " ")
	set("method", method)
	set("path", path)
	set("version", version)
	// The usual line is followed by the number of the request, its domain, and the result of its inspection.
	if more := strings.Fields(own); len(more) == 4 {
		set("request", more[0])
		if id, err := uuid.Parse(more[1]); err == nil {
			set("domain_id", id.String())
			set("domain", domains[id])
		}
		set("inspection_error", more[2])
	}
	return fields
}

// domains returns the names of the reverse proxy's domains; none while the database is away.
func (r *Room) domains(ctx context.Context) map[uuid.UUID]string {
	names, err := r.deps.Domains(ctx, r.DB)
	if err != nil {
		return nil
	}
	return names
}

func (r *Room) followJournal(ctx context.Context, f filter, sources []host.LogSource, emit func(Entry)) error {
	names := r.domains(ctx)
	return r.Host.FollowJournal(ctx, f.query(sources), func(batch []host.JournalEntry) {
		for _, e := range batch {
			emit(journalEntry(e, names))
		}
	})
}
