package account

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// Session is a login of the user that has not ended.
type Session struct {
	ID        uuid.UUID `json:"id" doc:"Id of the session."`
	Address   string    `json:"address" doc:"Where the user logged in from."`
	Browser   string    `json:"browser" doc:"User agent, in short."`
	UserAgent string    `json:"user_agent" doc:"User agent of the browser."`
	Method    string    `json:"method" enum:"password,totp,recovery-code,passkey,oidc" doc:"How the user logged in."`
	CreatedAt time.Time `json:"created_at" doc:"Since when."`
	ExpiresAt time.Time `json:"expires_at" doc:"When it expires."`
	Current   bool      `json:"current" doc:"Whether it is the session of this request."`
}

func (r *Room) mountSessions() {
	httpd.Handle(r.Router, http.MethodGet, "/auth/sessions", httpd.Own.BeforeSetup(),
		httpd.Doc{ID: "auth.session.list", Tag: "auth", Summary: "List your own sessions, newest first"},
		func(c *httpd.Call, _ struct{}) ([]Session, error) { return r.ownSessions(c) })
	httpd.Handle(r.Router, http.MethodDelete, "/auth/sessions/{id}", httpd.Own.BeforeSetup().BySession().Here(),
		httpd.Doc{ID: "auth.session.end", Tag: "auth", Summary: "End one of your own sessions", Audit: "auth.session.end"},
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the session."`
		}) (resource.Deleted, error) {
			return r.endSession(c, in.ID)
		})
}

func (r *Room) ownSessions(c *httpd.Call) ([]Session, error) {
	rows, err := r.DB.Query(c, `SELECT id, address, user_agent, method, created_at, expires_at FROM account_sessions
		WHERE user_id = $1 AND expires_at > $2 ORDER BY created_at DESC, id`, c.Actor.UserID, r.Clock.Now())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Session{}
	for rows.Next() {
		var s Session
		if err := rows.Scan(&s.ID, &s.Address, &s.UserAgent, &s.Method, &s.CreatedAt, &s.ExpiresAt); err != nil {
			return nil, err
		}
		s.Browser, s.Current = browser(s.UserAgent), s.ID == c.Actor.Session
		list = append(list, s)
	}
	return list, rows.Err()
}

// Operators returns the addresses from which administrators are logged in.
func (r *Room) Operators(ctx context.Context) ([]netip.Addr, error) {
	rows, err := r.DB.Query(ctx, `SELECT DISTINCT s.address FROM account_sessions s JOIN account_users u ON u.id = s.user_id
		WHERE u.role = $1 AND u.active AND s.expires_at > $2`, actor.Admin, r.Clock.Now())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []netip.Addr
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		if a, err := netip.ParseAddr(text); err == nil {
			list = append(list, a.Unmap().WithZone(""))
		}
	}
	return list, rows.Err()
}

func (r *Room) endSession(c *httpd.Call, id uuid.UUID) (resource.Deleted, error) {
	err := r.DB.Write(c, func(tx *db.Tx) error {
		tag, err := tx.Exec(c, "DELETE FROM account_sessions WHERE id = $1 AND user_id = $2", id, c.Actor.UserID)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fault.New(fault.NotFound, "This session does not exist.")
		}
		return r.Audit.Write(c, tx, "auth.session.end", c.Actor.Name, map[string]any{"id": id})
	})
	return resource.Deleted{ID: id.String()}, err
}

// browser describes a user agent in words: "Firefox on Linux". Unknown ones are named by their first word.
func browser(userAgent string) string {
	find := func(words [][2]string) string {
		for _, w := range words {
			if strings.Contains(userAgent, w[0]) {
				return w[1]
			}
		}
		return ""
	}
	// Most browsers name others besides themselves, so the order matters.
	program := find([][2]string{{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"HeadlessChrome/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}})
	system := find([][2]string{{"Android", "Android"}, {"iPhone", "iOS"}, {"iPad", "iOS"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"}})
	if program == "" {
		program, _, _ = strings.Cut(userAgent, " ")
		program, _, _ = strings.Cut(program, "/")
	}
	switch {
	case program == "":
		return "unknown"
	case system == "":
		return program
	}
	return program + " on " + system
}
