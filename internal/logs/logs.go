// Package logs presents all logs of the gateway's programs and daemons: the journal, the log files beside it and the audit log, merged by
// time, and searched and followed with the same filters.
package logs

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/httpd"
)

// Deps holds what the room needs from others.
type Deps struct {
	// Domains returns the names of the reverse proxy's domains.
	Domains func(ctx context.Context, q db.Querier) (map[uuid.UUID]string, error)
}

// Room reads and follows logs.
type Room struct {
	*kit.Kit
	deps Deps
	// searching and following limit those operations, because each is a process that reads the journal.
	searching, following *turns
	// within limits the time of a search.
	within time.Duration
}

const (
	// searches and follows limit how many run at a time, in total and per user: a console with some tabs, and room for others.
	searches, searchesEach = 3, 2
	follows, followsEach   = 12, 4
	// searchWithin is when a search returns what it has found so far.
	searchWithin = 5 * time.Second
	// pollEvery is how often followed files are checked.
	pollEvery = time.Second
)

func New(k *kit.Kit, deps Deps) *Room {
	return &Room{Kit: k, deps: deps, searching: newTurns(searches, searchesEach), following: newTurns(follows, followsEach), within: searchWithin}
}

// Source is a source of log entries.
type Source struct {
	Name        string `json:"name" doc:"Name of the source in queries and entries."`
	Title       string `json:"title" doc:"Its name."`
	Description string `json:"description" doc:"What is in it."`

	logs  []host.LogSource
	files []host.Log
	audit bool
	// admins hides the source from viewers, because it has stack traces, paths, or what daemons log about their input.
	admins bool
}

// requests is the source whose entries name a domain.
const requests = haproxy.Requests

// sources lists all sources in the order of display.
var sources = func() (list []Source) {
	for _, s := range host.Shown() {
		list = append(list, Source{Name: s.Name, Title: s.Title, Description: s.Description, logs: s.Sources, files: s.Files, admins: s.Admins})
	}
	return append(list, Source{Name: "audit", Title: "Audit", Description: "Changes and logins.", audit: true})
}()

// open returns the sources that an actor may read.
func open(list []Source, a actor.Actor) []Source {
	return slices.DeleteFunc(slices.Clone(list), func(s Source) bool { return s.admins && a.Role != actor.Admin })
}

// sourceOf maps a log or a file to the name of its source.
var sourceOf = func() map[string]string {
	names := map[string]string{}
	for _, s := range sources {
		for _, v := range s.logs {
			names[string(v)] = s.Name
		}
		for _, f := range s.files {
			names[string(f)] = s.Name
		}
	}
	return names
}()

type Entry struct {
	ID     string            `json:"id" doc:"Names the entry."`
	Time   time.Time         `json:"time" doc:"Time of the message."`
	Source string            `json:"source" doc:"Name of the source."`
	Level  string            `json:"level" enum:"error,warn,info,debug" doc:"Severity."`
	Text   string            `json:"text" doc:"The message. Characters that are not text are replaced."`
	Cut    bool              `json:"cut" doc:"Whether the text was longer."`
	Fields map[string]string `json:"fields" doc:"What else is known about it, by name."`
}

type Page struct {
	Entries []Entry `json:"entries" doc:"What was found, newest first."`
	Cursor  string  `json:"cursor" doc:"Send it with the same filters to read the next page; empty on the last page."`
	Partial bool    `json:"partial" doc:"Whether the search timed out before the page was full. There may be more matches."`
	// SearchedTo helps people decide whether to continue.
	SearchedTo *time.Time `json:"searched_to" doc:"Everything newer than this has been looked at; absent when everything has."`
	Errors     []Failure  `json:"errors" doc:"Sources that could not be read."`
}

// Failure is a source that could not be read.
type Failure struct {
	Source string `json:"source" doc:"What could not be read: journal, audit or the name of a source."`
	Error  string `json:"error" doc:"Why."`
}

var levels = []string{host.LevelError: "error", host.LevelWarn: "warn", host.LevelInfo: "info", host.LevelDebug: "debug"}

// Mount adds the room's routes. They also answer without the database.
func (r *Room) Mount() {
	const tag httpd.Tag = "logs"
	httpd.Handle(r.Router, http.MethodGet, "/logs/sources", httpd.Read.Offline(), tag.Doc("logs.sources", "List the sources of log entries"),
		func(c *httpd.Call, _ struct{}) ([]Source, error) { return open(sources, c.Actor), nil })
	httpd.Handle(r.Router, http.MethodGet, "/logs", httpd.Read.Offline(), tag.Doc("logs.search", "Log entries of programs and daemons and audit entries, newest first"),
		func(c *httpd.Call, in Input) (Page, error) {
			f, err := in.filter()
			if err == nil {
				err = f.restrict(c.Actor, in.Sources != "")
			}
			if err != nil {
				return Page{}, err
			}
			return r.search(c, f, c.Actor)
		})
	httpd.Stream(r.Router, "/logs/live", httpd.Read.Offline(), tag.Doc("logs.live", "The newest entries that match, oldest first, and then each new one"),
		func(ctx context.Context, in LiveInput, send func(Entry) error) error {
			f, err := in.filter()
			if err == nil {
				err = f.restrict(actor.From(ctx), in.Sources != "")
			}
			if err != nil {
				return err
			}
			return r.follow(ctx, f, actor.From(ctx), send)
		})
}
