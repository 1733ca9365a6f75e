package labtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"

	"edge.internal/gateway/internal/kit/waittest"
)

// Browser talks to a gateway's API like a browser, through the console's port.
type Browser struct {
	url  string
	http *http.Client
}

// NewBrowser returns a browser for the gateway at the URL. If dial is nil, it dials normally.
func NewBrowser(t testing.TB, url string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Browser{url: url, http: &http.Client{Jar: jar, Timeout: 2 * time.Minute, Transport: &http.Transport{
		DialContext:     dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the gateway's certificate is self-signed
	}}}
}

// Login logs in as the administrator.
func (b *Browser) Login(t testing.TB) {
	t.Helper()
	b.Must(t, http.MethodPost, "/auth/login", map[string]string{"email": AdminEmail, "password": AdminPassword}, 200, nil)
}

// WaitDatabase waits until the API has its database: a session that begins earlier can use only system routes.
func (b *Browser) WaitDatabase(t testing.TB) {
	t.Helper()
	waittest.UntilNil(t, "the API has its database", func() error {
		var health struct{ Database string }
		if b.Must(t, http.MethodGet, "/system/health", nil, 200, &health); health.Database != "up" {
			return fmt.Errorf("%+v", health)
		}
		return nil
	})
}

// Stream opens a stream of the API, which ends with the test.
func (b *Browser) Stream(t testing.TB, path string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), b.url+"/api/v1"+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Jar: b.http.Jar, Transport: b.http.Transport}, HTTPHeader: http.Header{"Origin": {b.url}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

type Answer struct {
	Status int
	Header http.Header
	Data   json.RawMessage
	Body   []byte
}

// Do makes a request to the API, with headers in pairs of name and value.
func (b *Browser) Do(ctx context.Context, method, path string, body any, headers ...string) (*Answer, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+"/api/v1"+path, r)
	if err != nil {
		return nil, err
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	res, err := b.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a := &Answer{Status: res.StatusCode, Header: res.Header}
	if a.Body, err = io.ReadAll(res.Body); err != nil {
		return nil, err
	}
	var envelope struct{ Data json.RawMessage }
	if err := json.Unmarshal(a.Body, &envelope); err != nil {
		return nil, fmt.Errorf("%s %s: %w in %q", method, path, err, a.Body)
	}
	a.Data = envelope.Data
	return a, nil
}

var silent = regexp.MustCompile(`The database (is unavailable|did not answer in time)\.`)

// Must makes a request that must be answered with the status, and decodes the data. If the database is silent for longer than the
// API waits, as may happen on a busy machine, nothing was done, and the request is repeated.
func (b *Browser) Must(t testing.TB, method, path string, body any, status int, into any) *Answer {
	t.Helper()
	var a *Answer
	for range 5 {
		var err error
		if a, err = b.Do(t.Context(), method, path, body); err != nil {
			t.Fatal(err)
		}
		if a.Status == status || !silent.Match(a.Body) {
			break
		}
		time.Sleep(time.Second)
	}
	if a.Status != status {
		t.Fatalf("%s %s answers %d instead of %d: %s", method, path, a.Status, status, a.Body)
	}
	if into != nil {
		if err := json.Unmarshal(a.Data, into); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

type Component struct {
	Name, State, Daemon, Detail string
	LastError                   string `json:"last_error"`
}

// components waits until the components satisfy so. within is the limit on an idle machine.
func (b *Browser) components(t testing.TB, what string, within time.Duration, so func([]Component) bool) {
	t.Helper()
	waittest.Within(t, Slow*within, what, func() error {
		a, err := b.Do(t.Context(), http.MethodGet, "/system/components", nil)
		if err != nil {
			return err
		}
		if a.Status != 200 {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		var all []Component
		if err := json.Unmarshal(a.Data, &all); err != nil {
			t.Fatal(err)
		}
		if !so(all) {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
}

func (b *Browser) WaitState(t testing.TB, name, state string, within time.Duration) (found Component) {
	t.Helper()
	b.components(t, name+" is "+state, within, func(all []Component) bool {
		for _, found = range all {
			if found.Name == name && found.State == state {
				return true
			}
		}
		return false
	})
	return found
}

// WaitSettled waits until nothing is pending: a failpoint that is armed then strikes at the next change, and not at work that
// remains from the start of the API.
func (b *Browser) WaitSettled(t testing.TB) {
	t.Helper()
	b.components(t, "nothing is pending", 20*time.Second, func(all []Component) bool {
		return !slices.ContainsFunc(all, func(x Component) bool { return x.State == "pending" })
	})
}
