package radius

import (
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/httpd"
)

// Authentication is an attempt to log in.
type Authentication struct {
	At       time.Time `json:"at" doc:"When."`
	User     string    `json:"user" doc:"Name that was given."`
	Client   string    `json:"client" doc:"Client that asked."`
	Station  string    `json:"station" doc:"Where the user is, as the client says: usually a hardware address."`
	Accepted bool      `json:"accepted" doc:"Whether it was let in."`
	Reason   string    `json:"reason" doc:"Why not; empty when it was."`
}

// Authentications are the last attempts to log in.
type Authentications struct {
	Authentications []Authentication `json:"authentications" doc:"The last 200, the newest first."`
	Error           string           `json:"error" doc:"Why they cannot be told; empty when they can."`
}

// Test is a log-in to try.
type Test struct {
	Name     string `json:"name" required:"true" maxLength:"253" doc:"Name to log in with."`
	Password string `json:"password" required:"true" maxLength:"128" doc:"Password to log in with."`
	Method   string `json:"method" enum:"pap,chap" doc:"How the password is shown to the server; pap when there is none."`
}

// Tested is what became of it.
type Tested struct {
	Accepted   bool     `json:"accepted" doc:"Whether the server let it in."`
	Attributes []string `json:"attributes" doc:"What the server replied, such as Session-Timeout = 3600."`
	DurationMS float64  `json:"duration_ms" doc:"How long the server took."`
	Error      string   `json:"error" doc:"Why there was no answer; empty when there was one."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/radius/authentications", httpd.Read, httpd.Doc{ID: "radius.authentications", Tag: "radius", Summary: "The last attempts to log in"},
		func(*httpd.Call, struct{}) (Authentications, error) {
			return Authentications{Authentications: []Authentication{}}, nil
		})
	httpd.Handle(r.Router, http.MethodPost, "/radius/test", httpd.Write, httpd.Doc{ID: "radius.test", Tag: "radius", Summary: "Try to log in", Audit: "radius.test"},
		func(*httpd.Call, struct{ Body Test }) (Tested, error) {
			return Tested{Attributes: []string{}}, nil
		})
}
