package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"edge.internal/gateway/internal/kit/host/proxytest"
	"edge.internal/gateway/internal/waf/crstest"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe"
)

// recorder keeps the engine's verdicts by the client's address and port.
type recorder struct {
	*engine.Set
	verdicts sync.Map
}

func (r *recorder) Inspect(ctx context.Context, q *engine.Request, with engine.Settings) (engine.Verdict, error) {
	v, err := r.Set.Inspect(ctx, q, with)
	if err == nil {
		r.verdicts.Store(q.Source.String(), v)
	}
	return v, err
}

// Known: every request is inspected.
func (r *recorder) Known(*engine.Request, engine.Settings) bool { return false }

// regressionFrontend is that of one setting, in HTTP/1 and 2. What the agent passes is answered in the place of an origin.
const regressionFrontend = `frontend %[4]s
	bind %[2]s
	bind %[3]s proto h2
	unique-id-format %%[uuid()]
	filter spoe engine waf config %[1]s/etc/haproxy/gateway/spoe.cfg
	http-request set-var(txn.request) unique-id
	http-request set-var(txn.uri) url
	http-request set-var(txn.uri) str(*) if { req.ver -m beg 2 }
	http-request set-var(txn.uri) pathq if { req.ver -m beg 2 }
	http-request set-var(txn.id) str(%[4]s)
	http-request wait-for-body time 60s
	http-request send-spoe-group waf request
	http-request return status 403 if { var(txn.waf.verdict) -m str deny }
	http-request return status 503 if !{ var(txn.waf.verdict) -m str pass }
	http-request return status 200 content-type text/plain string "the origin"
`

// site is one setting, and where its frontend listens.
type site struct {
	name       string
	with       engine.Settings
	plain, two string
}

func TestCoreRuleSetThroughHAProxy(t *testing.T) {
	set, err := engine.NewWith(crstest.Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	levels, err := crstest.Levels()
	if err != nil {
		t.Fatal(err)
	}
	all, err := crstest.Requests()
	if err != nil {
		t.Fatal(err)
	}
	known, err := crstest.Deviations("testdata/deviations.txt")
	if err != nil {
		t.Fatal(err)
	}
	settings, every := []engine.Settings{{Paranoia: 4}, {Blocking: true, Paranoia: 1}}, 40
	if crstest.Everything() {
		settings, every = nil, 1
		for level := 1; level <= 4; level++ {
			settings = append(settings, engine.Settings{Paranoia: level}, engine.Settings{Blocking: true, Paranoia: level})
		}
	}
	kept := &recorder{Set: set}
	sites := regressionSites(t, kept, settings)

	var mu sync.Mutex
	seen := map[string]bool{}
	for _, s := range sites {
		for protocol, send := range map[string]func(*crstest.Case) (int, string, error){"1": s.send, "2": s.sendTwo} {
			t.Run(s.name+"-http"+protocol, func(t *testing.T) {
				var applicable, expected atomic.Int64
				work := make(chan *crstest.Case)
				var clients sync.WaitGroup
				for range 4 {
					clients.Go(func() {
						for c := range work {
							name := protocol + ":" + c.Name
							instead, is := known[name]
							v, why := kept.judge(c, s.with, levels, send)
							if why != "" {
								mu.Lock()
								seen[name] = true
								mu.Unlock()
							}
							switch refused := v == nil; {
							case why == "", is && !refused && instead.Found(*v) && instead.Instead != crstest.Lost:
								applicable.Add(1)
								expected.Add(1)
							case is && (refused && instead.Instead == crstest.Refused || !refused && instead.Found(*v)):
							default:
								applicable.Add(1)
								t.Errorf("%s: %s", name, why)
							}
						}
					})
				}
				for i := range all {
					if _, is := known[protocol+":"+all[i].Name]; is || i%every == 0 {
						work <- &all[i]
					}
				}
				close(work)
				clients.Wait()
				t.Logf("%d of %d applicable cases as expected", expected.Load(), applicable.Load())
				if applicable.Load() < int64(len(all)/every*99/100) {
					t.Errorf("of %d cases, only %d are applicable", len(all), applicable.Load())
				}
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !seen[name] {
			t.Errorf("%s is as expected: take it out of the list of deviations", name)
		}
	}
}

// judge sends a case, and says what is not as the test wants it, or "". There is no verdict on what the proxy refuses,
// even if it has asked the agent before it saw the reason, which is a matter of time.
func (r *recorder) judge(c *crstest.Case, with engine.Settings, levels map[int]int, send func(*crstest.Case) (int, string, error)) (*engine.Verdict, string) {
	status, from, err := send(c)
	found, inspected := r.verdicts.LoadAndDelete(from)
	if !inspected {
		switch {
		case err == nil && status == http.StatusOK:
			return &engine.Verdict{Rule: -1}, "the origin answers what was not inspected"
		case c.Refused():
			return nil, ""
		}
		return nil, fmt.Sprintf("the proxy answers %d, %v", status, err)
	}
	v := found.(engine.Verdict)
	if err != nil {
		return nil, fmt.Sprintf("not answered, %v, and the verdict is %+v", err, v)
	}
	want := http.StatusOK
	if v.Deny {
		want = http.StatusForbidden
	}
	if status != want {
		return &engine.Verdict{Rule: -1}, fmt.Sprintf("answered with %d, and the verdict is %+v", status, v)
	}
	return &v, c.Deviates(v, with, levels)
}

func regressionSites(t *testing.T, e Engine, settings []engine.Settings) (sites []*site) {
	t.Helper()
	named := map[string]*Domain{}
	for _, with := range settings {
		s := &site{name: fmt.Sprintf("detection-%d", with.Paranoia), with: with, plain: proxytest.Address(t), two: proxytest.Address(t)}
		if with.Blocking {
			s.name = fmt.Sprintf("blocking-%d", with.Paranoia)
		}
		sites = append(sites, s)
		named[s.name] = &Domain{Name: s.name, Settings: with}
	}
	a := New(e, func(name []byte) *Domain { return named[string(name)] })
	a.within = long
	root := proxytest.Root(t)
	config := fmt.Sprintf(proxySettings, root, serve(t, &spoe.Server{Handler: a.Handle, Log: slog.New(slog.DiscardHandler)}))
	for _, s := range sites {
		config += fmt.Sprintf(regressionFrontend, root, s.plain, s.two, s.name)
	}
	configure(t, root, config)
	proxytest.Start(t, proxytest.Own, root)
	return sites
}

// send sends a case in HTTP/1, and answers the status and from where it was sent.
func (s *site) send(c *crstest.Case) (status int, from string, err error) {
	conn, err := net.Dial("tcp", s.plain)
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	from = conn.LocalAddr().String()
	_ = conn.SetDeadline(time.Now().Add(2 * long))
	if _, err := conn.Write(c.Raw()); err != nil {
		return 0, from, err
	}
	_ = conn.(*net.TCPConn).CloseWrite() // some have less body than they say
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: c.Request.Method})
	if err != nil {
		return 0, from, err
	}
	res.Body.Close()
	return res.StatusCode, from, nil
}

// notInTwo are fields that HTTP/2 does not have.
var notInTwo = []string{"connection", "host", "transfer-encoding", "keep-alive", "upgrade", "proxy-connection"}

// sendTwo sends a case in HTTP/2, and answers the status and from where it was sent.
func (s *site) sendTwo(c *crstest.Case) (status int, from string, err error) {
	conn, err := net.Dial("tcp", s.two)
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	from = conn.LocalAddr().String()
	_ = conn.SetDeadline(time.Now().Add(2 * long))
	var head strings.Builder
	enc := hpack.NewEncoder(&head)
	put := func(name, value string) { _ = enc.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	authority := ""
	for _, f := range c.Request.Header {
		if f.Name == "host" && authority == "" {
			authority = f.Value
		}
	}
	put(":method", c.Request.Method)
	put(":scheme", "http")
	if authority != "" {
		put(":authority", authority)
	}
	put(":path", c.Request.URI)
	for _, f := range c.Request.Header {
		if !slices.Contains(notInTwo, f.Name) {
			put(f.Name, f.Value)
		}
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return 0, from, err
	}
	fr := http2.NewFramer(conn, conn)
	_ = fr.WriteSettings()
	block, first := head.String(), true
	for {
		part := block[:min(len(block), 16000)]
		block = block[len(part):]
		if first {
			err = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(part), EndStream: len(c.Request.Body) == 0, EndHeaders: block == ""})
		} else {
			err = fr.WriteContinuation(1, block == "", []byte(part))
		}
		if first = false; err != nil {
			return 0, from, err
		}
		if block == "" {
			break
		}
	}
	for body := c.Request.Body; len(body) > 0; {
		part := body[:min(len(body), 16000)]
		body = body[len(part):]
		if err := fr.WriteData(1, len(body) == 0, part); err != nil {
			return 0, from, err
		}
	}
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return 0, from, err
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			_, err := fmt.Sscan(f.PseudoValue("status"), &status)
			return status, from, err
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0, from, fmt.Errorf("%v", f)
		}
	}
}
