package radius

import (
	"context"
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Authentication is a login attempt.
type Authentication struct {
	At       time.Time `json:"at" doc:"When."`
	User     string    `json:"user" doc:"Name that was given; empty when the request was not looked at."`
	Client   string    `json:"client" doc:"Client that asked: its name, its address if it is unknown, or this gateway for a test."`
	Station  string    `json:"station" doc:"Location of the user as reported by the client, usually a MAC address."`
	Accepted bool      `json:"accepted" doc:"Whether the login succeeded."`
	Reason   string    `json:"reason" doc:"Why not; empty when it was."`
}

// Authentications lists the last login attempts.
type Authentications struct {
	Authentications []Authentication `json:"authentications" doc:"The last 200, the newest first."`
	Error           string           `json:"error" doc:"Why they are not known; empty if they are."`
}

// Test is a login to try.
type Test struct {
	Name     string      `json:"name" required:"true" maxLength:"253" doc:"Name to log in with."`
	Password secret.Text `json:"password,omitzero" required:"true" doc:"Password to log in with."`
	Method   *string     `json:"method" enum:"pap,chap" doc:"How the password is sent to the server; pap by default."`
}

func (t *Test) Validate() error {
	var c check.List
	c.That(t.Name == "" || t.Name[0] != '+', "name", "must not start with a plus sign")
	if text, fresh := t.Password.Fresh(); fresh {
		if _, err := value.Parse[Password](text); err != nil {
			c.Add("password", "%s", err)
		}
	}
	return c.Err()
}

// Tested is the result of a test login.
type Tested struct {
	Accepted   bool     `json:"accepted" doc:"Whether the server accepted the login."`
	Attributes []string `json:"attributes" doc:"Attributes of the reply, for example Session-Timeout = 3600."`
	DurationMS float64  `json:"duration_ms" doc:"How long the server took. A rejected login waits for a second."`
	Error      string   `json:"error" doc:"Why there was no answer; empty when there was one."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/radius/authentications", httpd.Read, httpd.Doc{ID: "radius.authentications", Tag: "radius", Summary: "The last attempts to log in"},
		func(c *httpd.Call, _ struct{}) (Authentications, error) {
			list, err := r.authentications()
			if err != nil {
				return Authentications{Error: httpd.Problem(c, "The log of the RADIUS server", err)}, nil
			}
			return Authentications{Authentications: list}, nil
		})
	httpd.Handle(r.Router, http.MethodPost, "/radius/test", httpd.Write.Here(), httpd.Doc{ID: "radius.test", Tag: "radius", Summary: "Test a login", Audit: "radius.test"},
		func(c *httpd.Call, in struct{ Body Test }) (Tested, error) { return r.test(c, in.Body) })
}

// test tries to log in, like a client.
func (r *Room) test(ctx context.Context, t Test) (Tested, error) {
	done := Tested{Attributes: []string{}}
	chap := t.Method != nil && *t.Method == "chap"
	answer, err := r.login(ctx, t, chap)
	if err != nil {
		done.Error = err.Error()
	} else {
		done = Tested{Accepted: answer.Accepted, Attributes: answer.Attributes, DurationMS: float64(answer.Duration.Microseconds()) / 1000}
	}
	method := "pap"
	if chap {
		method = "chap"
	}
	return done, r.Audit.Record(ctx, "radius.test", t.Name, map[string]any{"method": method, "accepted": done.Accepted, "error": done.Error})
}

func (r *Room) login(ctx context.Context, t Test, chap bool) (freeradius.Answer, error) {
	s, err := r.settings.Load(ctx, r.DB)
	if err != nil {
		return freeradius.Answer{}, err
	}
	own, err := r.own()
	if err != nil {
		return freeradius.Answer{}, err
	}
	text, _ := t.Password.Fresh()
	return r.Host.RadiusLogin(ctx, freeradius.Login{Port: s.AuthPort, Secret: own.String(), User: t.Name, Password: text, CHAP: chap})
}
