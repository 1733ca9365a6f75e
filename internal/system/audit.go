package system

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

const (
	// recentLimit is the default number of entries of a search.
	recentLimit = 100
	// liveSnapshot is how many past entries a stream begins with.
	liveSnapshot = 50
)

func (r *Room) mountAudit() {
	const tag httpd.Tag = "audit"
	httpd.Handle(r.Router, http.MethodGet, "/audit/recent", httpd.Read, tag.Doc("audit.recent", "The newest audit entries, newest first"),
		func(c *httpd.Call, in struct {
			Limit int `query:"limit" doc:"How many, at most 1000."`
		}) ([]audit.Entry, error) {
			return r.search(c, audit.Filter{Limit: in.Limit})
		})
	httpd.Handle(r.Router, http.MethodGet, "/audit", httpd.Read, tag.Doc("audit.search", "Audit entries that match, newest first"),
		func(c *httpd.Call, in struct {
			Actor   string    `query:"actor" doc:"Text in the actor; case does not matter."`
			Action  string    `query:"action" doc:"Text in the action."`
			Subject string    `query:"subject" doc:"Text in the subject."`
			From    time.Time `query:"from" doc:"Not before this time."`
			To      time.Time `query:"to" doc:"Not after this time."`
			Limit   int       `query:"limit" doc:"How many, at most 1000."`
			Before  uuid.UUID `query:"before" doc:"Only entries older than the one with this id, to read on."`
		}) ([]audit.Entry, error) {
			return r.search(c, audit.Filter{Actor: in.Actor, Action: in.Action, Subject: in.Subject, From: in.From, To: in.To, Limit: in.Limit, Before: in.Before})
		})
	httpd.Handle(r.Router, http.MethodGet, "/audit/{id}", httpd.Read, tag.Doc("audit.get", "One audit entry"),
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the entry."`
		}) (audit.Entry, error) {
			e, err := r.Audit.Get(c, in.ID)
			return r.Audit.VisibleTo(c.Actor, e), err
		})
	httpd.Stream(r.Router, "/audit/live", httpd.Read, tag.Doc("audit.live", "The newest audit entries, oldest first, and then each new one"),
		func(ctx context.Context, _ struct{}, send func(audit.Entry) error) error {
			reader := actor.From(ctx)
			return r.Audit.Follow(ctx, liveSnapshot, func(e audit.Entry) error { return send(r.Audit.VisibleTo(reader, e)) })
		})
}

func (r *Room) search(c *httpd.Call, f audit.Filter) ([]audit.Entry, error) {
	if f.Limit == 0 {
		f.Limit = recentLimit
	}
	if f.Limit < 1 || f.Limit > audit.MaxLimit {
		return nil, fault.Field("limit", "must be between 1 and %d", audit.MaxLimit)
	}
	entries, err := r.Audit.Search(c, f)
	for i, e := range entries {
		entries[i] = r.Audit.VisibleTo(c.Actor, e)
	}
	return entries, err
}
