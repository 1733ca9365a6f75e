package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/descope/virtualwebauthn"
	"github.com/google/uuid"
	"github.com/pquerna/otp/totp"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/waittest"
)

// pair is a cluster of two whole gateways with their ports.
type pair struct {
	primary, standby *box
	admin            string // a session at the primary
	there            string // one at the standby
}

func newPair(t *testing.T) pair {
	t.Helper()
	one, other := dbtest.Pair(t, dbtest.Server(t))
	var databases sync.Map
	p := pair{primary: newBox(t, one, &databases), standby: newBox(t, other, &databases)}
	p.admin = p.primary.setUp(t)
	var token cluster.Token
	p.primary.call(t, p.admin, http.MethodPost, "/cluster/join-tokens", `{"node_fqdn":"node.example.net"}`).Want(t, 201).Into(t, &token)
	p.standby.whole.Cluster.Manage(func(string) string { return p.primary.api.Listener.Addr().String() })
	p.standby.call(t, "", http.MethodPost, "/setup/join-cluster", map[string]any{"primary_fqdn": "gateway.example.net", "join_token": token.Token}).Want(t, 200)
	p.standby.call(t, "", http.MethodPost, "/setup/complete-node", `{"fqdn":"node.example.net","acme_enabled":false,"ipv6_enabled":false}`).Want(t, 200)
	p.there = p.standby.login(t, adminEmail)
	return p
}

// Changes of shared data through a standby are made by the primary as if it had been asked itself, and can be read at the standby
// immediately.
func TestForwarding(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	primary, standby := p.primary, p.standby
	call := func(token, method, path string, body any, headers ...string) *kittest.Answer {
		t.Helper()
		return kittest.Call(t, standby.Handler(), method, path, body, append(headers, "X-Test-Client", "192.0.2.7:4711", "Authorization", "Bearer "+token)...)
	}

	// Twenty times: the change must be readable every time, and not just often.
	var pool struct{ ID, Address string }
	for i := range 20 {
		a := call(p.there, http.MethodPost, "/ntp/pools", map[string]any{"address": string(rune('a'+i)) + ".example.net"}, "X-Request-ID", "request-of-the-test").Want(t, 201)
		a.Into(t, &pool)
		if a.Header.Get("Location") != "/api/v1/ntp/pools/"+pool.ID || a.Header.Get("X-Request-ID") != "request-of-the-test" || !strings.HasPrefix(a.Header.Get("Gateway-Apply"), "ntp=") {
			t.Errorf("%v", a.Header)
		}
		call(p.there, http.MethodGet, "/ntp/pools/"+pool.ID, nil).Want(t, 200)
	}
	for _, b := range []*box{primary, standby} {
		if n := b.Audited(t, "ntp.pool.create"); n != 20 {
			t.Errorf("%d entries", n)
		}
	}
	entry := gather[struct{ Actor, Request string }](t, primary.house, `SELECT actor, request_id FROM audit_entries WHERE action = 'ntp.pool.create' LIMIT 1`)[0]
	if entry.Actor != adminEmail || entry.Request != "request-of-the-test" {
		t.Errorf("%+v", entry)
	}

	// The primary reports errors, with its messages and status.
	call(p.there, http.MethodPost, "/ntp/pools", `{"address":"not an address"}`).WantField(t, "address")
	call(p.there, http.MethodPost, "/ntp/pools", map[string]any{"address": pool.Address}).WantTaken(t, "address")
	call(p.there, http.MethodPost, "/ntp/pools", `{"address":"x.example.net"}`, "Content-Type", "text/plain").Want(t, 415)
	call(p.there, http.MethodPost, "/ntp/pools", strings.Repeat(" ", httpd.MaxBody+1)).Want(t, 413)
	call(p.there, http.MethodDelete, "/ntp/pools/"+uuid.NewString(), nil).Want(t, 404)
	call("nonsense", http.MethodDelete, "/ntp/pools/"+pool.ID, nil).Want(t, 401)
	// The primary evaluates preconditions.
	tag := call(p.there, http.MethodGet, "/ntp/pools/"+pool.ID, nil).Header.Get("ETag")
	call(p.there, http.MethodPut, "/ntp/pools/"+pool.ID, `{"iburst":false}`, "If-Match", `"other"`).Want(t, 412)
	changed := call(p.there, http.MethodPut, "/ntp/pools/"+pool.ID, `{"iburst":false}`, "If-Match", tag).Want(t, 200).Header.Get("ETag")
	if now := call(p.there, http.MethodGet, "/ntp/pools/"+pool.ID, nil).Header.Get("ETag"); changed != now || now == tag {
		t.Errorf("%s, then %s, and now %s", tag, changed, now)
	}

	// The reason of a change is forwarded.
	set := call(p.there, http.MethodPut, "/ntp/pools/"+pool.ID, `{"prefer":true}`, httpd.ReasonHeader, "gr%C3%B6%C3%9Fer").Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	var kept struct{ Reason string }
	if call(p.there, http.MethodGet, "/change-sets/"+set, nil).Want(t, 200).Into(t, &kept); kept.Reason != "größer" {
		t.Errorf("%+v", kept)
	}

	// The caller's connection leads to this node, and not to the primary, so that nothing is claimed about it.
	zone := `{"kind":"firewall.zone","verb":"create","body":{"name":"guest"}}`
	call(p.there, http.MethodPost, "/firewall/explain", `{"mine":true,"operations":[`+zone+`]}`, "X-Test-Server", "192.0.2.1:3443").WantField(t, "mine")

	// Shared operations go to the primary, local ones stay, and a mix is refused.
	shared, local := `{"kind":"ntp.pool","verb":"create","body":{"address":"set.example.net"}}`, `{"kind":"ntp.settings","verb":"update","body":{"makestep":"2.0 5"}}`
	call(p.there, http.MethodPost, "/change-sets", `{"preview":true,"operations":[`+shared+`]}`).Want(t, 200)
	call(p.there, http.MethodPost, "/change-sets", `{"operations":[`+shared+`]}`).Want(t, 200)
	call(p.there, http.MethodPost, "/change-sets", `{"operations":[`+local+`]}`).Want(t, 200)
	a := call(p.there, http.MethodPost, "/change-sets", `{"operations":[`+shared+`,`+local+`]}`).WantField(t, "operations.1.kind")
	if len(a.Error.Fields) != 1 {
		t.Errorf("%s", a.Body)
	}
	both := strings.ReplaceAll(shared, "set.", "both.")
	primary.call(t, p.admin, http.MethodPost, "/change-sets", `{"operations":[`+both+`,`+local+`]}`).Want(t, 200)
	if primary.Audited(t, "ntp.settings.update") != 1 {
		t.Error("a change of the standby alone is one of the primary")
	}

	// Roles are the primary's current ones.
	userID, _ := primary.user(t, p.admin, "viewer@example.net", "viewer")
	waittest.Until(t, "the user is at the standby", func() bool { return standby.Rows(t, "account_users") == 2 })
	viewer := standby.login(t, "viewer@example.net")
	call(viewer, http.MethodPost, "/ntp/pools", `{"address":"viewer.example.net"}`).Want(t, 403)
	var api struct{ Token string }
	call(p.there, http.MethodPost, "/api-tokens", `{"name":"ci","role":"admin"}`).Want(t, 201).Into(t, &api)
	call(api.Token, http.MethodPost, "/ntp/pools", `{"address":"token.example.net"}`).Want(t, 201)
	call(api.Token, http.MethodPost, "/api-tokens", `{"name":"other","role":"admin"}`).Want(t, 403)
	if by := texts(t, primary.house, `SELECT actor FROM audit_entries WHERE action = 'ntp.pool.create' ORDER BY id DESC LIMIT 1`)[0]; by != "token:ci ("+adminEmail+")" {
		t.Error(by)
	}
	// The standby believes that the viewer is an administrator.
	err := standby.DB.Write(t.Context(), func(tx *db.Tx) error {
		tx.Queue("SET LOCAL session_replication_role = replica")
		tx.Queue("UPDATE account_users SET role = 'admin' WHERE id = $1", userID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	call(viewer, http.MethodPost, "/ntp/pools", `{"address":"viewer.example.net"}`).Want(t, 403)

	// A changed password ends the sessions at all nodes except the one that changed it.
	elsewhere := standby.login(t, adminEmail)
	other := strings.ToUpper(secretWord)
	call(p.there, http.MethodPost, "/auth/change-password", map[string]any{"current_password": secretWord, "new_password": other}).Want(t, 200)
	call(p.there, http.MethodGet, "/auth/me", nil).Want(t, 200)
	call(elsewhere, http.MethodGet, "/auth/me", nil).Want(t, 401)
	primary.call(t, p.admin, http.MethodGet, "/auth/me", nil).Want(t, 401)
}

// What waits at the primary can be confirmed or discarded through a standby, too, if both connections are new: the client's and
// that between the nodes.
func TestConfirmingThroughAStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	call := func(path string, headers ...string) *kittest.Answer {
		t.Helper()
		return kittest.Call(t, p.standby.Handler(), http.MethodPost, path, nil, append(headers, "X-Test-Client", "192.0.2.7:4711", "Authorization", "Bearer "+p.there)...)
	}
	state := func(b *box, token, id string) string {
		t.Helper()
		var set struct{ State string }
		b.call(t, token, http.MethodGet, "/change-sets/"+id, nil).Want(t, 200).Into(t, &set)
		return set.State
	}
	try := func(b *box, token, method, path, body string) string {
		t.Helper()
		return kittest.Call(t, b.Handler(), method, path, body, "X-Test-Client", "192.0.2.7:4711", "Authorization", "Bearer "+token, httpd.ConfirmWithinHeader, "600").Header.Get(httpd.ChangeSetHeader)
	}
	// The nodes already have a connection, which is older than the change.
	kittest.Call(t, p.standby.Handler(), http.MethodPost, "/ntp/pools", `{"address":"first.example.net"}`, "X-Test-Client", "192.0.2.7:4711", "Authorization", "Bearer "+p.there).Want(t, 201)

	kept := try(p.primary, p.admin, http.MethodPost, "/ntp/pools", `{"address":"kept.example.net"}`)
	old := call("/change-sets/"+kept+"/confirm").Want(t, 409)
	if !strings.Contains(old.Error.Message, "over a connection that was opened after the change was applied") {
		t.Errorf("%s", old.Body)
	}
	call("/change-sets/"+kept+"/confirm", "X-Test-Connection", "new").Want(t, 200)
	if got := state(p.primary, p.admin, kept); got != "confirmed" {
		t.Error(got)
	}
	if by := texts(t, p.primary.house, `SELECT actor FROM audit_entries WHERE action = 'change-set.confirm'`); !slices.Equal(by, []string{adminEmail}) {
		t.Error(by)
	}

	discarded := try(p.primary, p.admin, http.MethodPost, "/ntp/pools", `{"address":"discarded.example.net"}`)
	call("/change-sets/"+discarded+"/discard").Want(t, 200)
	if got := state(p.primary, p.admin, discarded); got != "taken_back" {
		t.Error(got)
	}
	call("/change-sets/"+discarded+"/discard").Want(t, 409)

	// A local change of the standby waits there, without involving the primary.
	own := try(p.standby, p.there, http.MethodPut, "/ntp/settings", `{"makestep":"2.0 5"}`)
	call("/change-sets/"+own+"/confirm", "X-Test-Connection", "new").Want(t, 200)
	if got := state(p.standby, p.there, own); got != "confirmed" {
		t.Error(got)
	}
	p.primary.call(t, p.admin, http.MethodGet, "/change-sets/"+own, nil).Want(t, 404)
}

// A change through a standby waits at the primary. The standby shows that, and it can be confirmed through either node.
func TestChangeThroughAStandbyWaits(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	call := func(b *box, token, method, path string, body any, headers ...string) *kittest.Answer {
		t.Helper()
		return kittest.Call(t, b.Handler(), method, path, body, append(headers, "X-Test-Client", "192.0.2.7:4711", "Authorization", "Bearer "+token)...)
	}
	waiting := func(b *box, token string) (list []resource.WaitingSet) {
		t.Helper()
		call(b, token, http.MethodGet, "/change-sets/waiting", nil).Want(t, 200).Into(t, &list)
		return list
	}
	// try makes a change through the standby, which shows it as waiting once its own components have applied it.
	try := func(method, path, body string, headers ...string) (set resource.WaitingSet) {
		t.Helper()
		a := call(p.standby, p.there, method, path, body, headers...)
		if a.Status >= 300 || a.Header.Get(httpd.ConfirmByHeader) == "" {
			t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
		}
		waittest.Until(t, "the standby shows what waits", func() bool {
			list := waiting(p.standby, p.there)
			if len(list) == 1 {
				set = list[0]
			}
			return set.AppliedAt != nil
		})
		there := waiting(p.primary, p.admin)
		if len(there) != 1 || there[0].ID != set.ID || !there[0].ConfirmBy.Equal(set.ConfirmBy) || set.Actor != adminEmail || set.ID.String() != a.Header.Get(httpd.ChangeSetHeader) {
			t.Fatalf("%+v at the primary, and %+v here", there, set)
		}
		return set
	}
	ends := func(set resource.WaitingSet, want string) {
		t.Helper()
		for _, x := range []struct {
			*box
			token string
		}{{p.primary, p.admin}, {p.standby, p.there}} {
			waittest.Until(t, "it is "+want+" at both nodes", func() bool {
				return x.set(t, x.token, set.ID.String()).State == want && len(waiting(x.box, x.token)) == 0
			})
		}
	}
	confirm := func(set resource.WaitingSet) string { return "/change-sets/" + set.ID.String() + "/confirm" }
	fresh := []string{"X-Test-Connection", "new"}

	one := try(http.MethodPost, "/ntp/pools", `{"address":"one.example.net"}`, httpd.ConfirmWithinHeader, "600")
	call(p.standby, p.there, http.MethodPost, "/ntp/pools", `{"address":"other.example.net"}`).Want(t, 409)
	call(p.standby, p.there, http.MethodPost, confirm(one), nil).Want(t, 409) // an old connection
	call(p.standby, p.there, http.MethodPost, confirm(one), nil, fresh...).Want(t, 200)
	ends(one, "confirmed")

	two := try(http.MethodPost, "/change-sets", `{"confirm_within":600,"operations":[{"kind":"ntp.pool","verb":"create","body":{"address":"two.example.net"}}]}`)
	call(p.primary, p.admin, http.MethodPost, confirm(two), nil, fresh...).Want(t, 200)
	ends(two, "confirmed")

	three := try(http.MethodPost, "/ntp/pools", `{"address":"three.example.net"}`, httpd.ConfirmWithinHeader, "600")
	call(p.standby, p.there, http.MethodPost, "/change-sets/"+three.ID.String()+"/discard", nil).Want(t, 200)
	ends(three, "taken_back")

	// The console keeps its connections: a probe of the standby gives the proof that the primary needs.
	four := try(http.MethodPost, "/ntp/pools", `{"address":"four.example.net"}`, httpd.ConfirmWithinHeader, "600")
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	conn, _, err := websocket.Dial(t.Context(), p.standby.api.URL+httpd.Prefix+"/change-sets/probe?id="+four.ID.String(),
		&websocket.DialOptions{HTTPClient: trusting, HTTPHeader: http.Header{"Authorization": {"Bearer " + p.there}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	_, frame, err := conn.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call(p.standby, p.there, http.MethodPost, confirm(four), `{"proof":"made up"}`).Want(t, 409)
	call(p.standby, p.there, http.MethodPost, confirm(four), string(frame)).Want(t, 200)
	ends(four, "confirmed")

	// An unconfirmed change is reverted at both nodes.
	five := try(http.MethodPost, "/ntp/pools", `{"address":"five.example.net"}`, httpd.ConfirmWithinHeader, "10")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.primary.Resources.Guard(ctx); close(done) }()
	defer func() { stop(); <-done }()
	ends(five, "taken_back")
}

// lie makes a request to the agent listener of a node, as another member.
func (b *box) lie(t *testing.T, to *box, path, contentType string, body any, header ...string) (*http.Response, string) {
	t.Helper()
	file := b.Paths.State(filepath.Join(cluster.Folder, "node.pem"))
	own, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(b.Paths.State(filepath.Join(cluster.Folder, "ca.pem")))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	encoded, ok := body.(string)
	if !ok {
		x, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		encoded = string(x)
	}
	url := texts(t, b.house, `SELECT api_url FROM ha_nodes WHERE id = '`+to.id+`'`)[0]
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+httpd.Prefix+path, strings.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	name := texts(t, b.house, `SELECT fqdn FROM ha_nodes WHERE id = '`+to.id+`'`)[0]
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: pool, ServerName: name}}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(answer)
}

// A lying node cannot act as someone who does not exist or with another role than the user's, and reaches only routes of the
// primary.
func TestForwardedLies(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	adminID := uuid.MustParse(texts(t, p.primary.house, `SELECT id::text FROM account_users`)[0])
	viewerID, viewer := p.primary.user(t, p.admin, "viewer@example.net", "viewer")
	tokenOf := p.primary.token(t, viewer, "viewer")
	var tokens []struct{ ID uuid.UUID }
	p.primary.call(t, tokenOf, http.MethodGet, "/api-tokens", nil).Want(t, 200).Into(t, &tokens)
	send := func(f httpd.Forwarded, body string) (int, string) {
		t.Helper()
		if f.Method == "" {
			f.Method, f.URI = http.MethodPost, httpd.Prefix+"/ntp/pools"
		}
		f.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + p.admin}, "Cookie": {httpd.SessionCookie + "=" + p.admin}}
		about, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		res, answer := p.standby.lie(t, p.primary, "/agent/forward", httpd.ForwardType, body, httpd.ForwardHeader, string(about), "Authorization", "Bearer "+p.admin)
		return res.StatusCode, answer
	}
	session := uuid.New()
	if status, answer := send(httpd.Forwarded{UserID: adminID, Session: session}, `{"address":"right.example.net"}`); status != 201 {
		t.Fatalf("%d %s", status, answer)
	}
	api := httpd.Prefix
	for name, x := range map[string]struct {
		f    httpd.Forwarded
		want int
	}{
		"no user":                            {httpd.Forwarded{Session: session}, 400},
		"unknown user":                       {httpd.Forwarded{UserID: uuid.New(), Session: session}, 401},
		"neither session nor token":          {httpd.Forwarded{UserID: adminID}, 401},
		"viewer":                             {httpd.Forwarded{UserID: uuid.MustParse(viewerID), Session: session}, 403},
		"unknown token":                      {httpd.Forwarded{UserID: adminID, Token: uuid.New()}, 401},
		"token of another user":              {httpd.Forwarded{UserID: adminID, Token: tokens[0].ID}, 401},
		"viewer's token":                     {httpd.Forwarded{UserID: uuid.MustParse(viewerID), Token: tokens[0].ID}, 403},
		"route of each node":                 {httpd.Forwarded{UserID: adminID, Session: session, Method: "POST", URI: api + "/system/render-configs"}, 403},
		"login":                              {httpd.Forwarded{UserID: adminID, Session: session, Method: "POST", URI: api + "/auth/login"}, 403},
		"local operation":                    {httpd.Forwarded{UserID: adminID, Session: session, Method: "POST", URI: api + "/change-sets"}, 403},
		"read":                               {httpd.Forwarded{UserID: adminID, Session: session, Method: "GET", URI: api + "/users"}, 400},
		"stream":                             {httpd.Forwarded{UserID: adminID, Session: session, Method: "HEAD", URI: api + "/audit/live"}, 400},
		"route of nodes":                     {httpd.Forwarded{UserID: adminID, Session: session, Method: "POST", URI: api + "/agent/cluster/step-down"}, 404},
		"forwarded by a forwarded request":   {httpd.Forwarded{UserID: adminID, Session: session, Method: "POST", URI: api + "/agent/forward"}, 404},
		"another machine":                    {httpd.Forwarded{UserID: adminID, Session: session, Method: "POST", URI: "https://192.0.2.1/api/v1/ntp/pools"}, 400},
		"no URI":                             {httpd.Forwarded{UserID: adminID, Session: session, Method: "POST", URI: "\x00"}, 400},
		"API token where a login is needed":  {httpd.Forwarded{UserID: uuid.MustParse(viewerID), Token: tokens[0].ID, Method: "POST", URI: api + "/api-tokens"}, 403},
		"a method that is none of the route": {httpd.Forwarded{UserID: adminID, Session: session, Method: "PATCH", URI: api + "/ntp/pools"}, 405},
	} {
		body := `{"address":"wrong.example.net"}`
		if strings.HasSuffix(x.f.URI, "/change-sets") {
			body = `{"operations":[{"kind":"ntp.settings","verb":"update","body":{"makestep":"9.0 9"}}]}`
		}
		if status, answer := send(x.f, body); status != x.want {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	if n := p.primary.Rows(t, "ntp_pools WHERE address LIKE 'wrong%'"); n != 0 {
		t.Errorf("%d were made", n)
	}
	// The standby accepts nothing from anyone: a forwarded request is never forwarded again.
	f, err := json.Marshal(httpd.Forwarded{Method: "POST", URI: api + "/ntp/pools", UserID: adminID, Session: session})
	if err != nil {
		t.Fatal(err)
	}
	if res, answer := p.primary.lie(t, p.standby, "/agent/forward", httpd.ForwardType, `{"address":"wrong.example.net"}`, httpd.ForwardHeader, string(f)); res.StatusCode != 503 || !strings.Contains(answer, `"primary":"gateway.example.net"`) {
		t.Errorf("%d %s", res.StatusCode, answer)
	}
}

// point changes the primary's address as the standby knows it, and returns the former one.
func (p pair) point(t *testing.T, to string) (was string) {
	t.Helper()
	was = texts(t, p.standby.house, `SELECT api_url FROM ha_nodes WHERE id = '`+p.primary.id+`'`)[0]
	dbtest.Exec(t, p.standby.DB, `BEGIN; SET LOCAL session_replication_role = replica; UPDATE ha_nodes SET api_url = '`+to+`' WHERE id = '`+p.primary.id+`'; COMMIT`)
	return was
}

// liar is a server with the certificate of the primary, which the standby takes for it.
func (p pair) liar(t *testing.T, answer http.HandlerFunc) {
	t.Helper()
	file := p.primary.Paths.State(filepath.Join(cluster.Folder, "node.pem"))
	own, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(answer)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	s.StartTLS()
	t.Cleanup(s.Close)
	p.point(t, s.URL)
}

// A primary that is unavailable, hangs, or lies is reported as such, and its answers give no one anything.
func TestForwardingToNoPrimary(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	away := func(what string) {
		t.Helper()
		a := p.standby.call(t, p.there, http.MethodPost, "/ntp/pools", `{"address":"lost.example.net"}`).Want(t, 503)
		if !bytes.Contains(a.Body, []byte(`"details":{"primary":"gateway.example.net"}`)) {
			t.Errorf("%s: %s", what, a.Body)
		}
	}
	url := p.point(t, "https://127.0.0.1:1")
	away("one that is not there")
	hang := make(chan struct{})
	answer := func(w http.ResponseWriter, _ *http.Request) {}
	p.liar(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) })
	away("an empty answer")
	answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	away("a refusal")
	answer = func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	away("one that hangs")
	close(hang)
	answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(httpd.DoneHeader, "")
		w.Header().Set("Set-Cookie", httpd.SessionCookie+"=stolen")
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "script-src *")
		_, _ = io.WriteString(w, `{"data":{"id":"x","role":"admin"},"error":null}`)
	}
	a := p.standby.call(t, p.there, http.MethodPost, "/ntp/pools", `{"address":"lost.example.net"}`).Want(t, 200)
	if h := a.Header; h.Get("Set-Cookie") != "" || h.Get("Content-Type") != "application/json" || strings.Contains(h.Get("Content-Security-Policy"), "*") {
		t.Errorf("%v", a.Header)
	}
	// Changes of local data still work.
	p.standby.call(t, p.there, http.MethodPut, "/ntp/settings", `{"makestep":"2.0 5"}`).Want(t, 200)
	p.point(t, url)
	p.standby.call(t, p.there, http.MethodPost, "/ntp/pools", `{"address":"back.example.net"}`).Want(t, 201)
}

// deliver delivers a node's outbox to the primary, until stop is called or the test ends.
func (b *box) deliver(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.whole.Cluster.Deliver(ctx); close(done) }()
	return func() { cancel(); <-done }
}

// An entry at a standby is in the log there immediately, gets to the primary with the same id, and is in both logs once, even if
// the standby dies after the primary has received it.
func TestAuditOutbox(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ids := func(b *box) string {
		return strings.Join(texts(t, b.house, `SELECT id::text FROM audit_log WHERE action = 'ntp.settings.update' ORDER BY id`), " ")
	}
	var mu sync.Mutex
	seen := map[string]int{} // number of occurrences, by the id of an entry
	times := func(id string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[id]
	}
	following, unfollow := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() {
		_ = p.standby.Audit.Follow(following, 50, func(e audit.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			seen[e.ID.String()]++
			return nil
		})
		close(followed)
	}()
	for _, step := range []string{"2.0 5", "3.0 5", "4.0 5"} {
		p.standby.call(t, p.there, http.MethodPut, "/ntp/settings", `{"makestep":"`+step+`"}`).Want(t, 200)
	}
	want := ids(p.standby)
	if len(want) != 3*37-1 || ids(p.primary) != "" {
		t.Fatalf("%q here, %q there", want, ids(p.primary))
	}
	// The primary has received one of them, but the standby died before it knew.
	entries, err := p.standby.Audit.Waiting(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	first := entries[:1]
	first[0].NodeID = "that of another node"
	if res, answer := p.standby.lie(t, p.primary, "/agent/audit", "application/json", first); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, answer)
	}
	if by := texts(t, p.primary.house, `SELECT node_id FROM audit_entries WHERE id = '`+first[0].ID.String()+`'`)[0]; by != p.standby.id {
		t.Errorf("a node speaks for %s", by)
	}
	defer p.standby.deliver(t)()
	waittest.Until(t, "the primary has all, and none waits", func() bool {
		return ids(p.primary) == want && p.standby.Rows(t, "audit_outbox") == 0
	})
	if got := ids(p.standby); got != want {
		t.Errorf("%q instead of %q", got, want)
	}
	for _, id := range strings.Fields(want) {
		waittest.Until(t, "a follower sees every entry", func() bool { return times(id) > 0 })
	}
	unfollow()
	<-followed
	for _, id := range strings.Fields(want) {
		if n := times(id); n != 1 {
			t.Errorf("a follower saw an entry %d times", n)
		}
	}
	// A standby accepts entries from no one.
	if res, answer := p.primary.lie(t, p.standby, "/agent/audit", "application/json", entries); res.StatusCode != 503 {
		t.Errorf("%d %s", res.StatusCode, answer)
	}
}

// A code works once in the whole cluster; while the primary is unavailable, once at each node, and the primary learns of that
// when it is back.
func TestCodesAreSpentOnce(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	var app struct{ Secret string }
	p.standby.call(t, p.there, http.MethodPost, "/auth/totp/setup", nil).Want(t, 200).Into(t, &app)
	code := func(steps int) string {
		c, err := totp.GenerateCode(app.Secret, time.Now().Add(time.Duration(steps)*30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var recovery struct {
		Codes []string `json:"recovery_codes"`
	}
	p.standby.call(t, p.there, http.MethodPost, "/auth/totp/enable", map[string]any{"code": code(0)}).Want(t, 200).Into(t, &recovery)
	waittest.Until(t, "the standby knows the app", func() bool { return p.standby.Rows(t, "account_recovery_codes") == 10 })
	login := func(b *box, code string) int {
		t.Helper()
		var first struct{ Challenge string }
		b.call(t, "", http.MethodPost, "/auth/login", map[string]any{"email": adminEmail, "password": secretWord}).Want(t, 200).Into(t, &first)
		return b.call(t, "", http.MethodPost, "/auth/login/totp", map[string]any{"challenge": first.Challenge, "code": code}).Status
	}
	wants := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d instead of %d", what, got, want)
		}
	}
	now := code(1) // valid for long enough
	wants("a code at the standby", login(p.standby, now), 200)
	wants("the same at the primary", login(p.primary, now), 401)
	wants("the same at the standby", login(p.standby, now), 401)
	wants("a recovery code at the standby", login(p.standby, recovery.Codes[0]), 200)
	wants("the same at the primary", login(p.primary, recovery.Codes[0]), 401)
	wants("the same at the standby", login(p.standby, recovery.Codes[0]), 401)

	url := p.point(t, "https://127.0.0.1:1")
	wants("a recovery code while the primary is away", login(p.standby, recovery.Codes[1]), 200)
	wants("the same again", login(p.standby, recovery.Codes[1]), 401)
	if n := p.primary.Rows(t, "account_recovery_codes"); n != 9 {
		t.Fatalf("%d codes", n)
	}
	p.point(t, url)
	stop := p.standby.deliver(t)
	waittest.Until(t, "the primary knows that it was used", func() bool {
		return p.primary.Rows(t, "account_recovery_codes") == 8 && p.standby.Rows(t, "account_spent") == 0
	})
	stop()
	wants("the code that was used while the primary was away, there", login(p.primary, recovery.Codes[1]), 401)
	// A primary that lies can make neither a wrong nor a used code work, and cannot permanently keep out someone who has another
	// one.
	says := `{"data":{},"error":null}`
	p.liar(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(says, `"code"`) {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, says)
	})
	wants("a wrong code, and the primary agrees to everything", login(p.standby, "no-such-code"), 401)
	wants("a code that was used at the primary", login(p.standby, recovery.Codes[0]), 401)
	wants("a good one", login(p.standby, recovery.Codes[3]), 200)
	wants("the same, which the primary says is fresh", login(p.standby, recovery.Codes[3]), 401)
	says = `{"data":null,"error":{"code":"unauthenticated","message":"It was used."}}`
	wants("one that the primary says was used", login(p.standby, recovery.Codes[4]), 401)
	// A node that becomes the primary knows the codes that it has accepted.
	p.point(t, "https://127.0.0.1:1")
	wants("another one", login(p.standby, recovery.Codes[2]), 200)
	if _, err := p.standby.whole.Cluster.Promote(t.Context(), cluster.Promotion{Forced: true}); err != nil {
		t.Fatal(err)
	}
	if n := p.standby.Rows(t, "account_recovery_codes"); n != 6 {
		t.Errorf("%d codes", n)
	}
	for _, used := range []string{recovery.Codes[2], recovery.Codes[3]} {
		wants("the same when the node is the primary", login(p.standby, used), 401)
	}
	wants("one that no node has taken", login(p.standby, recovery.Codes[4]), 200)
}

// A passkey's counter is checked in the whole cluster: no node accepts a copy that is behind, not even one that could not tell
// the primary.
func TestPasskeyCountsInTheWholeCluster(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	const name = "localhost:3443"
	device := virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{})
	party := virtualwebauthn.RelyingParty{Name: "Gateway", ID: "localhost", Origin: "https://" + name}
	key := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
	for len(key.Key.AttestationData()) != 77 { // the library drops leading zeros of a coordinate, which no authenticator does
		key = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
	}
	call := func(b *box, token, path string, body any) *kittest.Answer {
		t.Helper()
		return kittest.Call(t, b.Handler(), http.MethodPost, path, body, "X-Test-Client", loopback, "Host", name, "Authorization", "Bearer "+token)
	}
	options := func(a *kittest.Answer) string {
		t.Helper()
		var out struct{ Options json.RawMessage }
		a.Want(t, 200).Into(t, &out)
		return string(out.Options)
	}
	asked, err := virtualwebauthn.ParseAttestationOptions(options(call(p.primary, p.admin, "/auth/passkeys/register/begin", nil)))
	if err != nil {
		t.Fatal(err)
	}
	device.Options.UserHandle = []byte(asked.UserID)
	call(p.primary, p.admin, "/auth/passkeys/register/finish", map[string]any{
		"name": "laptop", "credential": json.RawMessage(virtualwebauthn.CreateAttestationResponse(party, device, key, *asked)),
	}).Want(t, 201)
	waittest.Until(t, "the standby has the passkey", func() bool { return p.standby.Rows(t, "account_passkeys") == 1 })
	wants := func(what string, b *box, count uint32, want int) {
		t.Helper()
		var first struct{ Challenge string }
		call(b, "", "/auth/login", map[string]any{"email": adminEmail, "password": secretWord}).Want(t, 200).Into(t, &first)
		asked, err := virtualwebauthn.ParseAssertionOptions(options(call(b, "", "/auth/login/passkey/begin", map[string]any{"challenge": first.Challenge})))
		if err != nil {
			t.Fatal(err)
		}
		key.Counter = count
		if a := call(b, "", "/auth/login/passkey/finish", map[string]any{
			"challenge": first.Challenge, "credential": json.RawMessage(virtualwebauthn.CreateAssertionResponse(party, device, key, *asked)),
		}); a.Status != want {
			t.Errorf("%s: %d %s instead of %d", what, a.Status, a.Body, want)
		}
	}
	wants("at the standby", p.standby, 5, 200)
	wants("a copy at the primary", p.primary, 5, 401)
	wants("a copy that is behind, at the standby", p.standby, 4, 401)
	wants("the passkey at the primary", p.primary, 6, 200)
	waittest.Until(t, "the standby knows the count", func() bool { return p.standby.Rows(t, "account_passkeys WHERE sign_count = 6") == 1 })
	wants("a copy at the standby", p.standby, 6, 401)

	url := p.point(t, "https://127.0.0.1:1")
	wants("the passkey while the primary is away", p.standby, 9, 200)
	wants("a copy of it", p.standby, 9, 401)
	wants("a copy that is behind what the primary does not know", p.standby, 8, 401)
	wants("the passkey once more", p.standby, 10, 200)
	p.point(t, url)
	stop := p.standby.deliver(t)
	waittest.Until(t, "the primary knows the count", func() bool { return p.primary.Rows(t, "account_passkeys WHERE sign_count = 10") == 1 })
	stop()
	wants("a copy at the primary", p.primary, 10, 401)
}

// A password that is wrong according to this node is checked at the primary. Whatever the result, the role and the second factor
// are those in this node's database.
func TestFederatedLogin(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.primary.user(t, p.admin, "viewer@example.net", "viewer")
	waittest.Until(t, "the user is at the standby", func() bool { return p.standby.Rows(t, "account_users") == 2 })
	// The change of the password has not been replicated yet.
	dbtest.Exec(t, p.standby.DB, `BEGIN; SET LOCAL session_replication_role = replica; UPDATE account_users SET password = (SELECT password FROM account_users WHERE email = '`+adminEmail+`') || 'x' WHERE email = 'viewer@example.net'; COMMIT`)
	p.standby.login(t, "viewer@example.net")
	enter := func(email, password string) *kittest.Answer {
		t.Helper()
		return p.standby.call(t, "", http.MethodPost, "/auth/login", map[string]any{"email": email, "password": password, "issue_token": true})
	}
	enter("viewer@example.net", "wrong"+secretWord).Want(t, 401)
	enter("nobody@example.net", secretWord).Want(t, 401)

	p.liar(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":{"right":true,"role":"admin","totp_enabled":false},"error":null}`)
	})
	dbtest.Exec(t, p.standby.DB, `BEGIN; SET LOCAL session_replication_role = replica; UPDATE account_users SET totp_enabled = true WHERE email = '`+adminEmail+`'; COMMIT`)
	enter("nobody@example.net", "whatever it is").Want(t, 401)
	var in struct {
		Token        string
		User         struct{ Role string }
		TOTPRequired bool `json:"totp_required"`
	}
	enter("viewer@example.net", "whatever it is").Want(t, 200).Into(t, &in)
	if in.User.Role != "viewer" {
		t.Errorf("%+v", in)
	}
	p.standby.call(t, in.Token, http.MethodPut, "/ntp/settings", `{"makestep":"2.0 5"}`).Want(t, 403)
	in.Token = ""
	if enter(adminEmail, "whatever it is").Want(t, 200).Into(t, &in); !in.TOTPRequired || in.Token != "" {
		t.Errorf("%+v", in)
	}
}

// Every node answers a certificate authority's challenges like the primary does.
func TestEveryNodeAnswersChallenges(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	solver := p.primary.whole.Certificate.Challenges().(interface {
		Present(ctx context.Context, domain, token, keyAuth string) error
		CleanUp(ctx context.Context, domain, token, keyAuth string) error
	})
	asked := func(b *box) (int, string) {
		w := httptest.NewRecorder()
		b.whole.Certificate.Challenges().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/acme-challenge/t0ken", nil))
		return w.Code, w.Body.String()
	}
	if err := solver.Present(t.Context(), "shop.example.net", "t0ken", "t0ken.key"); err != nil {
		t.Fatal(err)
	}
	// Present waits for the other nodes, but not forever.
	for _, b := range []*box{p.primary, p.standby} {
		waittest.Until(t, "both nodes answer", func() bool {
			status, answer := asked(b)
			return status == 200 && answer == "t0ken.key"
		})
	}
	if err := solver.CleanUp(t.Context(), "shop.example.net", "t0ken", "t0ken.key"); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "no node answers any more", func() bool {
		one, _ := asked(p.primary)
		other, _ := asked(p.standby)
		return one == 404 && other == 404
	})
}

// Every route that changes something says which node handles it, and a standby can handle its own: the database refuses nothing
// of that.
func TestEveryRouteHasItsNode(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	find := h.furnish(t, admin)
	paths := map[*httpd.Route]string{}
	there := 0
	for _, r := range inUse(refusing(h.routes)) {
		switch {
		case r.Method == http.MethodGet:
			if r.Policy.Where() != "" || r.OnPrimary != nil {
				t.Errorf("%s is read where it is asked for", r.Path)
			}
		case r.Policy.Where() == "primary":
			there++
		case r.Policy.Where() == "" && r.OnPrimary == nil:
			t.Errorf("%s %s does not say which node does it", r.Method, r.Path)
		case r.Policy.Where() == "node" && !slices.ContainsFunc([]string{"/auth/", "/setup/", "/cluster/", "/waf/alerts/{id}/exclude", "/ids/", "/diagnostics/"}, func(area string) bool { return strings.HasPrefix(r.Path, area) }):
			if paths[r] = r.Path; strings.Contains(r.Path, "{name}") {
				delete(paths, r)
			} else if strings.Contains(r.Path, "{") {
				paths[r] = find(r)
			}
		}
	}
	if there < 80 || len(paths) < 30 {
		t.Errorf("%d routes are the primary's, and %d are tried", there, len(paths))
	}
	dbtest.Exec(t, h.DB, `UPDATE ha_state SET role = 'standby', primary_id = '1', primary_name = 'one.example.net'`)
	for r, at := range paths {
		if !r.Enveloped() || r.Takes != "" {
			continue
		}
		if a := h.call(t, admin, r.Method, at, `{}`); strings.Contains(string(a.Body), "one.example.net") {
			t.Errorf("%s %s is done by each node, and the database refuses it: %s", r.Method, r.Path, a.Body)
		}
	}
}
