package waf

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/waf/crstest"
	"edge.internal/gateway/internal/waf/engine"
)

const (
	// localhost is the tests' name of the server. A site has a full name, so the file is rendered for local, and the name is then replaced.
	localhost, local = "localhost", "site.test"
	// some is the number of requests that the short run selects, in addition to the known deviations.
	some = 100
)

// tested are the rules with the settings of their tests, shared.
var tested = sync.OnceValues(func() (*engine.Set, error) { return engine.NewWith(crstest.Settings) })

// regression is the core rule set in one mode and at one level.
type regression struct {
	witness
	with   engine.Settings
	levels map[int]int
}

// rehearse runs the rule set's tests in several modes and at several levels, or in all.
func rehearse(t *testing.T, answers bool, names []string, test func(*testing.T, *regression)) {
	t.Helper()
	set, err := tested()
	if err != nil {
		t.Fatal(err)
	}
	levels, err := crstest.Levels()
	if err != nil {
		t.Fatal(err)
	}
	runs := []engine.Settings{{Paranoia: 4}, {Blocking: true, Paranoia: 1}}
	if crstest.Everything() {
		runs = nil
		for level := 1; level <= 4; level++ {
			runs = append(runs, engine.Settings{Paranoia: level}, engine.Settings{Blocking: true, Paranoia: level})
		}
	}
	for _, with := range runs {
		mode := map[bool]string{false: "detection", true: "blocking"}[with.Blocking]
		t.Run(fmt.Sprintf("%s-%d", mode, with.Paranoia), func(t *testing.T) {
			r := &regression{witness: witness{Engine: set}, with: with, levels: levels}
			inspection := &proxy.Inspection{Detects: !with.Blocking, Partial: !with.Blocking, Answers: answers}
			var sites []site
			for _, name := range names {
				sites = append(sites, site{name: name, paranoia: with.Paranoia, inspection: inspection})
			}
			start(t, proxytest.Own, r, sites, local, localhost)
			test(t, r)
		})
	}
}

// The core rule set's own regression tests, as a site gets them: all in every mode and at every level with GATEWAY_WAF_REGRESSION=all,
// otherwise some.
func TestCoreRuleSetThroughHAProxy(t *testing.T) {
	all, err := crstest.Requests()
	if err != nil {
		t.Fatal(err)
	}
	known, err := crstest.Deviations("testdata/deviations.txt")
	if err != nil {
		t.Fatal(err)
	}
	var cases, others []crstest.Case
	for _, c := range all {
		_, one := known["1:"+c.Name]
		_, two := known["2:"+c.Name]
		if one || two {
			cases = append(cases, c)
		} else {
			others = append(others, c)
		}
	}
	if !crstest.Everything() {
		others = longtest.Some(t, some, others)
	}
	cases = append(cases, others...)
	var mu sync.Mutex
	seen := map[string]string{} // what became of those that are known to end otherwise
	rehearse(t, false, hosts(all), func(t *testing.T, r *regression) {
		for i, send := range []sender{send, sendTwo} {
			version := strconv.Itoa(i + 1)
			var expected, explained atomic.Int64
			again := each(t, cases, func(c *crstest.Case) (inTime bool) {
				v, why, inTime := r.judge(c, send)
				name := version + ":" + c.Name
				switch instead, is := known[name]; {
				case !inTime:
				case why == "":
					expected.Add(1)
				case is && instead.Found(v):
					explained.Add(1)
					mu.Lock()
					seen[name] = why
					mu.Unlock()
				default:
					t.Errorf("%s: %s", name, why)
				}
				return inTime
			})
			t.Logf("HTTP/%s: %d of %d as expected, %d otherwise for a known reason; sent again: %v",
				version, expected.Load(), len(cases), explained.Load(), again)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if why, is := seen[name]; is {
			t.Logf("%-12s %s (%s)", name, known[name].Cause, why)
		} else {
			t.Errorf("%s is as expected: take it out of the list of deviations", name)
		}
	}
}

// All tests about responses: the server answers as instructed, and what the rules find is withheld. In blocking mode,
// some of the requests are already refused because of these instructions.
func TestCoreRuleSetOnResponsesThroughHAProxy(t *testing.T) {
	all, err := crstest.Responses()
	if err != nil {
		t.Fatal(err)
	}
	rehearse(t, true, []string{local}, func(t *testing.T, r *regression) {
		var expected, refused atomic.Int64
		again := each(t, all, func(c *crstest.Case) (inTime bool) {
			why, denied, inTime := r.judgeResponse(c)
			switch {
			case !inTime:
			case why != "":
				t.Errorf("%s: %s", c.Name, why)
			case denied:
				refused.Add(1)
			default:
				expected.Add(1)
			}
			return inTime
		})
		t.Logf("responses: %d of %d as expected, %d requests were refused; sent again: %v", expected.Load(), len(all), refused.Load(), again)
		if !r.with.Blocking && refused.Load() > 0 {
			t.Error("requests were refused")
		}
	})
}

// each sends cases concurrently. Those that were not inspected in time, according to HAProxy, are sent again, one at a time, until they are; it returns
// them. More than a tenth of all cannot be explained by a busy machine.
func each(t *testing.T, cases []crstest.Case, judge func(*crstest.Case) (inTime bool)) (again []string) {
	t.Helper()
	var mu sync.Mutex
	var late []*crstest.Case
	var clients errgroup.Group
	clients.SetLimit(3)
	for i := range cases {
		clients.Go(func() error {
			if !judge(&cases[i]) {
				mu.Lock()
				late = append(late, &cases[i])
				mu.Unlock()
			}
			return nil
		})
	}
	_ = clients.Wait()
	if len(late) > len(cases)/10 {
		t.Fatalf("there was no time for %d of %d", len(late), len(cases))
	}
	for _, c := range late {
		waittest.Until(t, c.Name+" is inspected", func() bool { return judge(c) })
		again = append(again, c.Name)
	}
	return again
}

// hosts are the names of sites that the tests ask for. HAProxy has no site for anything else, such as an address.
func hosts(all []crstest.Case) []string {
	found := map[string]bool{local: true}
	for i := range all {
		for _, f := range all[i].Request.Header {
			name, _, _ := strings.Cut(f.Value, ":")
			if f.Name == "host" && name != "" && new(value.SiteName).UnmarshalText([]byte(name)) == nil {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// judge sends a case, and returns how it differs from the test's expectation, or "". There is no verdict on what the proxy refuses,
// even if it has called the agent before it found the reason, which is a race.
func (r *regression) judge(c *crstest.Case, send sender) (v *engine.Verdict, why string, inTime bool) {
	a, from, err := send(c)
	said, inspected := r.asked.LoadAndDelete(from)
	want := http.StatusOK
	if c.Response != nil {
		want = c.Response.Status
	}
	switch {
	case a.late():
		return nil, "", false
	case err == nil && inspected:
		verdict := said.(asked).verdict
		if verdict.Deny {
			want = http.StatusForbidden
		}
		if a.status != want {
			return &engine.Verdict{Rule: -1}, fmt.Sprintf("answered with %d, and the verdict is %+v", a.status, verdict), true
		}
		return &verdict, c.Deviates(verdict, r.with, r.levels), true
	case a.header.Get("Server") == "origin":
		return &engine.Verdict{Rule: -1}, "the origin answers what was not inspected", true
	case c.Refused():
		return nil, "", true
	}
	return nil, fmt.Sprintf("the proxy answers %d, %v", a.status, err), true
}

// judgeResponse is judge for a case about a response. The server is not reached if the request is denied.
func (r *regression) judgeResponse(c *crstest.Case) (why string, denied, inTime bool) {
	a, from, err := send(c)
	said, inspected := r.asked.LoadAndDelete(from)
	if a.late() {
		return "", false, false
	}
	if err != nil || !inspected {
		return fmt.Sprintf("the request was not inspected: %d, %v", a.status, err), false, true
	}
	request, want := said.(asked), c.Response.Status
	v := request.verdict
	if !v.Deny {
		found, inspected := r.answered.LoadAndDelete(request.number)
		if !inspected {
			return fmt.Sprintf("the response was not inspected: %d", a.status), false, true
		}
		v = found.(engine.Verdict)
		why = c.Deviates(v, r.with, r.levels)
	}
	if v.Deny {
		want = http.StatusForbidden
	}
	if a.status != want {
		why = fmt.Sprintf("answered with %d, and the verdict is %+v", a.status, v)
	}
	return why, request.verdict.Deny, true
}

// late reports whether HAProxy says that an inspection was not done in time.
func (a answer) late() bool {
	return a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "5"
}

// sender sends a case, and returns the answer, without its body, and the address it was sent from.
type sender func(*crstest.Case) (a answer, from string, err error)

// send sends a case in HTTP/1.
func send(c *crstest.Case) (a answer, from string, err error) {
	conn, err := net.Dial("tcp", "127.0.0.1:80")
	if err != nil {
		return a, "", err
	}
	defer conn.Close()
	from = conn.LocalAddr().String()
	_ = conn.SetDeadline(time.Now().Add(long))
	if _, err := conn.Write(c.Raw()); err != nil {
		return a, from, err
	}
	_ = conn.(*net.TCPConn).CloseWrite() // some have less body than they say
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: c.Request.Method})
	if err != nil {
		return a, from, err
	}
	res.Body.Close()
	return answer{status: res.StatusCode, header: res.Header}, from, nil
}

// notInTwo are fields that HTTP/2 does not have.
var notInTwo = []string{"connection", "host", "transfer-encoding", "keep-alive", "upgrade", "proxy-connection"}

// sendTwo sends a case in HTTP/2.
func sendTwo(c *crstest.Case) (a answer, from string, err error) {
	conn, err := tls.Dial("tcp", "127.0.0.1:443", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return a, "", err
	}
	defer conn.Close()
	from = conn.LocalAddr().String()
	_ = conn.SetDeadline(time.Now().Add(long))
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	put := func(name, value string) { _ = enc.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	put(":method", c.Request.Method)
	put(":scheme", "https")
	if i := slices.IndexFunc(c.Request.Header, func(f engine.Field) bool { return f.Name == "host" }); i >= 0 && c.Request.Header[i].Value != "" {
		put(":authority", c.Request.Header[i].Value)
	}
	put(":path", c.Request.URI)
	for _, f := range c.Request.Header {
		if !slices.Contains(notInTwo, f.Name) {
			put(f.Name, f.Value)
		}
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return a, from, err
	}
	fr := http2.NewFramer(conn, conn)
	_ = fr.WriteSettings()
	end := len(c.Request.Body) == 0
	if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: end, EndHeaders: true}); err != nil {
		return a, from, err
	}
	for body := c.Request.Body; len(body) > 0; {
		part := body[:min(len(body), 16000)]
		body = body[len(part):]
		if err := fr.WriteData(1, len(body) == 0, part); err != nil {
			return a, from, err
		}
	}
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return a, from, err
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			a.header = http.Header{}
			for _, field := range f.RegularFields() {
				a.header.Add(field.Name, field.Value)
			}
			_, err := fmt.Sscan(f.PseudoValue("status"), &a.status)
			return a, from, err
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return a, from, fmt.Errorf("%v", f)
		}
	}
}
