package diag

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// Host is a request for ping or traceroute.
type Host struct {
	Target string     `json:"target" required:"true" maxLength:"253" doc:"Host name or IP address. Only letters, digits and . : / _ - are accepted, and no leading hyphen."`
	Run    *uuid.UUID `json:"run" doc:"An id that you choose, to follow the run at /diagnostics/live."`
}

func (h *Host) Validate() error {
	_, err := host.ProbeHost(h.Target)
	return target(err)
}

// target turns an error into one about the target.
func target(err error) error {
	if err != nil {
		return fault.Field("target", "%s", err)
	}
	return nil
}

// Page is a request for curl.
type Page struct {
	Target string     `json:"target" required:"true" maxLength:"253" doc:"An http or https URL; http by default. Only letters, digits and . : / _ - are accepted, and no leading hyphen."`
	Run    *uuid.UUID `json:"run" doc:"An id that you choose, to follow the run at /diagnostics/live."`
}

func (p *Page) Validate() error {
	_, err := host.ProbeURL(p.Target)
	return target(err)
}

// Name is a request for dig.
type Name struct {
	Target string     `json:"target" required:"true" maxLength:"253" doc:"DNS name, or an address with the type PTR. Only letters, digits and . : / _ - are accepted, and no leading hyphen."`
	Type   *string    `json:"type" enum:"A,AAAA,CNAME,MX,TXT,NS,SOA,PTR,SRV,CAA" doc:"Record type; A by default."`
	Server value.Addr `json:"server" doc:"Address of the DNS server to query; empty for the system's resolver."`
	Run    *uuid.UUID `json:"run" doc:"An id that you choose, to follow the run at /diagnostics/live."`
}

func (n *Name) kind() string {
	if n.Type == nil {
		return "A"
	}
	return *n.Type
}

func (n *Name) Validate() error {
	_, err := host.ProbeName(n.Target, n.kind())
	return target(err)
}

// Port is a request for the TCP probe.
type Port struct {
	Target string     `json:"target" required:"true" maxLength:"253" doc:"Host name or IP address, with :port unless the port is given separately. Only letters, digits and . : / _ - are accepted, and no leading hyphen."`
	Port   *int       `json:"port" minimum:"1" maximum:"65535" doc:"The port. An IPv6 address needs it given here."`
	Run    *uuid.UUID `json:"run" doc:"An id that you choose, to follow the run at /diagnostics/live."`
}

func (p *Port) end() (name string, port int, err error) {
	name, port, err = host.ProbePort(p.Target)
	switch {
	case err != nil:
		return "", 0, target(err)
	case p.Port != nil && port != 0:
		return "", 0, fault.Field("port", "is already part of the target")
	case p.Port != nil:
		port = *p.Port
	case port == 0:
		return "", 0, fault.Field("port", "is required, here or in the target")
	}
	return name, port, nil
}

func (p *Port) Validate() error {
	_, _, err := p.end()
	return err
}

type Result struct {
	Output     string `json:"output" doc:"What the tool printed, at most 256 KiB."`
	ExitStatus int    `json:"exit_status" doc:"Exit status of the tool: 0 on success. If it was stopped, 128 plus the number of the signal."`
	DurationMS int64  `json:"duration_ms" doc:"How long it ran, in milliseconds, rounded up."`
	TimedOut   bool   `json:"timed_out" doc:"Whether it was ended because it took too long."`
	Truncated  bool   `json:"truncated" doc:"Whether it was ended because it printed too much."`
}

func (r *Room) mountTools() {
	httpd.Handle(r.Router, http.MethodPost, "/diagnostics/ping", httpd.Write.Here(), tag.Audited("diagnostics.ping", "Send a host four echo requests"),
		func(c *httpd.Call, in struct{ Body Host }) (Result, error) {
			return r.probe(c, in.Body.Run, host.Probe{Tool: host.ProbePing, Target: in.Body.Target})
		})
	httpd.Handle(r.Router, http.MethodPost, "/diagnostics/traceroute", httpd.Write.Here(), tag.Audited("diagnostics.traceroute", "Find the routers on the path to a host, at most 20"),
		func(c *httpd.Call, in struct{ Body Host }) (Result, error) {
			return r.probe(c, in.Body.Run, host.Probe{Tool: host.ProbeTraceroute, Target: in.Body.Target})
		})
	httpd.Handle(r.Router, http.MethodPost, "/diagnostics/dig", httpd.Write.Here(), tag.Audited("diagnostics.dig", "Look up the DNS records of a name"),
		func(c *httpd.Call, in struct{ Body Name }) (Result, error) {
			return r.probe(c, in.Body.Run, host.Probe{Tool: host.ProbeDig, Target: in.Body.Target, Type: in.Body.kind(), Server: in.Body.Server.Netip()})
		})
	httpd.Handle(r.Router, http.MethodPost, "/diagnostics/curl", httpd.Write.Here(), tag.Audited("diagnostics.curl", "Request a page and show the connection and the headers"),
		func(c *httpd.Call, in struct{ Body Page }) (Result, error) {
			return r.probe(c, in.Body.Run, host.Probe{Tool: host.ProbeCurl, Target: in.Body.Target})
		})
	httpd.Handle(r.Router, http.MethodPost, "/diagnostics/tcp", httpd.Write.Here(), tag.Audited("diagnostics.tcp", "Check whether a TCP port accepts connections"),
		func(c *httpd.Call, in struct{ Body Port }) (Result, error) {
			name, port, err := in.Body.end()
			if err != nil {
				return Result{}, err
			}
			return r.tool(c, in.Body.Run, "diagnostics.tcp", net.JoinHostPort(name, strconv.Itoa(port)), func(run *run, print func([]byte)) (host.ProbeEnd, error) {
				return r.connect(run, name, port, print)
			})
		})
}

// probe runs a program.
func (r *Room) probe(c *httpd.Call, id *uuid.UUID, p host.Probe) (Result, error) {
	subject := p.Target
	if p.Type != "" {
		subject += " " + p.Type
	}
	return r.tool(c, id, "diagnostics."+string(p.Tool), subject, func(run *run, print func([]byte)) (host.ProbeEnd, error) {
		end, err := r.Host.Probe(run, p, print)
		return end, away(p.Tool, err)
	})
}

// away turns an error about running a program into a fault for the caller.
func away(tool host.ProbeTool, err error) error {
	switch {
	case errors.Is(err, host.ErrNotInstalled):
		return fault.Wrap(fault.Unavailable, err, "%s is not installed on this machine.", tool)
	case errors.Is(err, errHungUp), errors.Is(err, context.Canceled):
		return fault.Wrap(fault.Unavailable, err, "%s was stopped, because the connection was closed.", tool)
	}
	return err
}

// tool audits the use of a tool, takes a turn, and runs it.
func (r *Room) tool(c *httpd.Call, id *uuid.UUID, action, subject string, work func(run *run, print func([]byte)) (host.ProbeEnd, error)) (Result, error) {
	run, over, err := r.begin(c, id)
	if err != nil {
		return Result{}, err
	}
	defer over()
	if err := r.Audit.Record(c, action, subject, nil); err != nil {
		return Result{}, err
	}
	c.Unhurried()
	var kept strings.Builder
	var text plainText
	end, err := work(run, func(output []byte) {
		if printed := text.next(output); printed != "" {
			kept.WriteString(printed)
			run.publish(Event{Output: printed})
		}
	})
	if err != nil {
		return Result{}, err
	}
	return Result{
		Output: kept.String(), ExitStatus: end.ExitStatus, DurationMS: milliseconds(end.Duration), TimedOut: end.TimedOut, Truncated: end.Truncated,
	}, nil
}

// milliseconds rounds up to whole milliseconds.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// plainText makes valid text of the output of programs, some of which comes from strangers.
type plainText struct{ rest []byte }

// next returns the text of the next bytes. An incomplete character is kept for the following bytes.
func (p *plainText) next(b []byte) string {
	b = append(p.rest, b...)
	whole := len(b)
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if utf8.RuneStart(b[len(b)-back]) {
			if !utf8.FullRune(b[len(b)-back:]) {
				whole = len(b) - back
			}
			break
		}
	}
	p.rest = append([]byte(nil), b[whole:]...)
	return strings.Map(func(c rune) rune {
		if c == '\r' || c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 {
			return -1
		}
		return c
	}, strings.ToValidUTF8(string(b[:whole]), "\uFFFD"))
}

const (
	// tcpWait is how long one address may take to answer, and tcpWithin how long all of them together.
	tcpWait   = 5 * time.Second
	tcpWithin = 8 * time.Second
)

var errTCPLate = errors.New("it took too long")

// connect tries a TCP port on each address of a name until one answers.
func (r *Room) connect(ctx context.Context, name string, port int, print func([]byte)) (end host.ProbeEnd, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tcpWithin, errTCPLate)
	defer cancel()
	say := func(format string, args ...any) { print(fmt.Appendf(nil, format+"\n", args...)) }
	began := time.Now()
	end.ExitStatus = 1
	addresses, err := r.addresses(ctx, name)
	if err != nil {
		say("%s: %s", name, unresolved(err))
	}
	for _, address := range addresses {
		if ctx.Err() != nil {
			break
		}
		at := net.JoinHostPort(address.String(), strconv.Itoa(port))
		say("Trying %s ...", at)
		asked := time.Now()
		if err := dial(ctx, at); err != nil {
			say("%s: %s", at, refused(err))
			continue
		}
		say("Connected to %s in %.1f ms.", at, float64(time.Since(asked).Microseconds())/1000)
		end.ExitStatus = 0
		break
	}
	end.Duration = time.Since(began)
	if cause := context.Cause(ctx); errors.Is(cause, errTCPLate) {
		end.TimedOut = true
	} else if cause != nil && end.ExitStatus != 0 {
		return end, away("tcp", cause)
	}
	return end, nil
}

// addresses resolves a name, or parses an address.
func (r *Room) addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	list, err := r.deps.Resolve(ctx, name)
	for i := range list {
		list[i] = list[i].Unmap()
	}
	return list, err
}

// dial connects and disconnects.
func dial(ctx context.Context, at string) error {
	conn, err := (&net.Dialer{Timeout: tcpWait}).DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return conn.Close()
}

// refused explains why a connection failed.
func refused(err error) string {
	var late interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, syscall.EHOSTUNREACH):
		return "the host is unreachable: a router reports it, or the host does not answer on its own network"
	case errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to it"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "this machine has no address to reach it from"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "it is prohibited: a firewall rejects it, or this is a broadcast address"
	case errors.As(err, &late) && late.Timeout():
		return fmt.Sprintf("there is no answer within %s", tcpWait)
	}
	return "the connection fails"
}

// unresolved explains why a name has no address.
func unresolved(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "the name does not exist"
	}
	return "DNS does not answer"
}

// family refuses addresses of different families.
func family(c *check.List, field string, a, b netip.Addr) {
	c.That(!a.IsValid() || !b.IsValid() || a.Is4() == b.Is4(), field, "must be of the same family as the other address")
}
