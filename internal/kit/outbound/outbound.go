// Package outbound makes connections to addresses that an operator entered: they cannot reach the machine itself or its links,
// not even by redirects, unless the operator allows it, and they end when they are idle.
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/policy"
)

const (
	dialWithin   = 3 * time.Second
	answerWithin = 4 * time.Second
	maxRedirects = 3
	// maxAnswer is the maximum number of bytes read of an answer.
	maxAnswer = 1 << 20
)

// Refused says that an address is not allowed. Its text is for the operator.
type Refused struct{ why string }

func (e *Refused) Error() string { return e.why }

// Door makes connections to the outside.
type Door struct {
	machine host.Machine
	roots   *x509.CertPool // nil for those of the system
	listens uint16         // the port of the API, if it is not the usual one
}

func New(m host.Machine) *Door { return &Door{machine: m} }

// Trusting returns a door that trusts these authorities.
func (d *Door) Trusting(roots *x509.CertPool) *Door {
	trusting := *d
	trusting.roots = roots
	return &trusting
}

// Listening returns a door that also protects the given port, on which the API listens.
func (d *Door) Listening(port uint16) *Door {
	listening := *d
	listening.listens = port
	return &listening
}

// manages reports whether a port is one through which the gateway itself is managed. Nobody may reach it through the gateway.
func (d *Door) manages(port uint16) bool {
	return port == d.listens || slices.ContainsFunc(policy.Own(), func(p policy.Port) bool { return p.Proto == policy.TCP && p.Number == port })
}

// TLS returns the configuration for connections to a server with this name.
func (d *Door) TLS(name string) *tls.Config {
	return &tls.Config{RootCAs: d.roots, ServerName: name, MinVersion: tls.VersionTLS12}
}

// Client returns a client for public and private networks. With internal it also accepts plain HTTP, and reaches the machine
// itself. The address is checked when the connection is made, so that neither DNS nor a redirect can evade it.
func (d *Door) Client(internal bool) *http.Client { return d.client(internal, internal) }

// PlainClient is Client, but always accepts plain HTTP, for what is not secret.
func (d *Door) PlainClient(internal bool) *http.Client { return d.client(internal, true) }

func (d *Door) client(internal, plain bool) *http.Client {
	transport := &http.Transport{
		DialContext: d.dialer(internal, dialWithin).DialContext, TLSHandshakeTimeout: dialWithin, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{RootCAs: d.roots},
	}
	return &http.Client{
		Transport: limited{transport, plain}, Timeout: answerWithin,
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return &Refused{"it redirects too often"}
			}
			return nil
		},
	}
}

// dialer checks the address when the connection is made.
func (d *Door) dialer(internal bool, within time.Duration) *net.Dialer {
	dialer := &net.Dialer{Timeout: within}
	if !internal {
		dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return d.allow(ctx, to)
		}
	}
	return dialer
}

// thisHost holds addresses of the machine itself that netip does not know as such.
var thisHost = netip.MustParsePrefix("0.0.0.0/8")

func (d *Door) allow(ctx context.Context, to netip.AddrPort) error {
	ip := to.Addr().Unmap().WithZone("")
	switch {
	case ip.IsLoopback(), ip.IsUnspecified(), thisHost.Contains(ip):
		return &Refused{fmt.Sprintf("%s is this machine itself, which is not allowed", ip)}
	case ip.IsLinkLocalUnicast(), ip.IsMulticast():
		return &Refused{fmt.Sprintf("%s is a link-local address, which is not allowed", ip)}
	case !d.manages(to.Port()):
		return nil
	}
	own, err := d.own(ctx, ip)
	if err == nil && own {
		err = &Refused{fmt.Sprintf("%s is a management port of this gateway, which is not allowed", to)}
	}
	return err
}

func (d *Door) own(ctx context.Context, ip netip.Addr) (bool, error) {
	links, err := d.machine.Links(ctx)
	if err != nil {
		return false, fmt.Errorf("reading the addresses of this machine: %w", err)
	}
	for _, l := range links {
		for _, a := range l.Addrs {
			if has, err := netip.ParseAddr(a.Local); err == nil && has.WithZone("") == ip {
				return true, nil
			}
		}
	}
	return false, nil
}

type limited struct {
	*http.Transport
	plain bool
}

func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !l.plain {
		return nil, &Refused{"plain HTTP is not allowed"}
	}
	res, err := l.Transport.RoundTrip(req)
	if err == nil {
		res.Body = &bounded{res.Body, maxAnswer}
	}
	return res, err
}

type bounded struct {
	io.ReadCloser
	left int
}

var errTooLong = errors.New("the answer is too long")

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
