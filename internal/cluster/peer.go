package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

const (
	// AgentPort is the port for other nodes.
	AgentPort = 8443
	// askWithin limits a question about another node.
	askWithin = 2 * time.Second
	// doWithin limits a request to do something.
	doWithin = 15 * time.Second
	// answerLimit is the maximum size of an answer.
	answerLimit = 1 << 20
)

// apiURL returns the URL of a node's agent listener.
func apiURL(address string, port int) string {
	return (&url.URL{Scheme: "https", Host: net.JoinHostPort(address, strconv.Itoa(port))}).String()
}

// clientTLS presents this node's certificate, and accepts only the named node.
func (i *identity) clientTLS(to Node, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Time: now, Certificates: []tls.Certificate{i.own}, RootCAs: i.pool, ServerName: to.Name,
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.PeerCertificates[0].Subject.CommonName != to.ID {
				return fmt.Errorf("%s answers as another node", to.Name)
			}
			return nil
		},
	}
}

// Ask sends a request to another node's agent listener and returns the data of the answer. It takes at most 2 seconds, or 15 if the
// method is not GET. A refusal becomes a fault with the other node's words.
func Ask[T any](ctx context.Context, r *Room, to Member, method, path string, in any) (out T, err error) {
	within := askWithin
	if method != http.MethodGet {
		within = doWithin
	}
	return askFor[T](ctx, r, to, within, method, path, in)
}

// askFor is Ask with another limit.
func askFor[T any](ctx context.Context, r *Room, to Member, within time.Duration, method, path string, in any) (out T, err error) {
	i := r.identity.Load()
	if i == nil {
		return out, errNoAuthority
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	out, err = send[T](ctx, r.once(i, to), method, to.APIURL+httpd.Prefix+path, in)
	if err != nil && fault.From(err).Kind == fault.Internal {
		return out, fault.Wrap(fault.Unavailable, err, "%s does not answer.", to.FQDN)
	}
	return out, err
}

// once returns a client that opens a new connection for each request.
func (r *Room) once(i *identity, to Member) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: i.clientTLS(to.node(), r.Clock.Now)}, CheckRedirect: noRedirect}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// send makes a request with a JSON body, and unwraps the answer.
func send[T any](ctx context.Context, client *http.Client, method, to string, in any) (out T, err error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return out, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		return out, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	if err != nil {
		return out, err
	}
	out, refused, err := httpd.Open[T](answer)
	if err != nil {
		return out, fmt.Errorf("the answer (%s) is not from a gateway: %w", res.Status, err)
	}
	if refused != nil {
		kind, ok := fault.KindOf(refused.Code)
		if !ok || kind == fault.Internal {
			return out, errors.New(refused.Message)
		}
		f := fault.New(kind, "%s", refused.Message)
		f.Fields = refused.Fields
		return out, f
	}
	return out, nil
}
