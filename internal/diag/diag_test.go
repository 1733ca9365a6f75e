package diag_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/diag"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
)

// bench is the room on a machine in memory.
type bench struct {
	*kittest.Bench
	verdict diag.Verdict
	asked   diag.Packet
	names   map[string][]netip.Addr
	server  *httptest.Server
}

func start(t *testing.T) *bench {
	t.Helper()
	b := &bench{Bench: kittest.New(t), names: map[string][]netip.Addr{"localhost": {netip.MustParseAddr("127.0.0.1")}}}
	diag.New(b.Kit, diag.Deps{
		Explain: func(_ *httpd.Call, p diag.Packet) (diag.Verdict, error) {
			b.asked = p
			v := b.verdict
			if !v.Destination.IsValid() {
				v.Destination, v.Port = p.Destination, p.Port
			}
			return v, nil
		},
		Zones: func(context.Context) (map[value.Zone][]value.IfName, error) {
			return map[value.Zone][]value.IfName{value.Must[value.Zone]("lan"): {value.Must[value.IfName]("lan0")}}, nil
		},
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			if list := b.names[name]; len(list) > 0 {
				return list, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		},
	}).Mount()
	b.Start(t)
	b.server = httptest.NewServer(b.Handler())
	t.Cleanup(b.server.Close)
	return b
}

// post makes a request that can be canceled.
func (b *bench) post(ctx context.Context, path string, body any) (*http.Response, error) {
	content, _ := json.Marshal(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.server.URL+httpd.Prefix+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer admin")
	return http.DefaultClient.Do(req)
}

func TestToolsAnswerAndAreAudited(t *testing.T) {
	b := start(t)
	var got host.Probe
	b.Machine.ScriptProbes(func(_ context.Context, p host.Probe, sink func([]byte)) (host.ProbeEnd, error) {
		got = p
		sink([]byte("a\x1b[31m b\r\n\xff\xc3"))
		sink([]byte("\xa4\n"))
		return host.ProbeEnd{ExitStatus: 3, Duration: 1500*time.Microsecond + 1}, nil
	})
	for tool, body := range map[string]string{
		"ping": `{"target":"192.0.2.1"}`, "traceroute": `{"target":"a.example"}`, "dig": `{"target":"a.example","type":"MX","server":"192.0.2.53"}`, "curl": `{"target":"https://a.example/x"}`,
	} {
		var r diag.Result
		b.Do(t, "admin", http.MethodPost, "/diagnostics/"+tool, body).Want(t, 200).Into(t, &r)
		if r.Output != "a[31m b\n\uFFFDä\n" || r.ExitStatus != 3 || r.DurationMS != 2 {
			t.Errorf("%s: %+v", tool, r)
		}
		if string(got.Tool) != tool || b.Audited(t, "diagnostics."+tool) != 1 {
			t.Errorf("%s ran as %+v and has %d entries", tool, got, b.Audited(t, "diagnostics."+tool))
		}
		if a := b.Do(t, "viewer", http.MethodPost, "/diagnostics/"+tool, body); a.Status != 403 {
			t.Errorf("DG-01 %s answers a viewer %d", tool, a.Status)
		}
	}
}

// DG-02, DG-04.
func TestBadTargets(t *testing.T) {
	b := start(t)
	b.Machine.ScriptProbes(func(context.Context, host.Probe, func([]byte)) (host.ProbeEnd, error) {
		t.Error("a program was run")
		return host.ProbeEnd{}, nil
	})
	bad := map[string][]string{"target": {"", "a;b", "a$b", "a`b", "a b", "a\nb", "a%b", "a@b", "-c", "--help"}}
	for _, tool := range []string{"ping", "traceroute", "dig", "curl", "tcp"} {
		for _, target := range bad["target"] {
			a := b.Do(t, "admin", http.MethodPost, "/diagnostics/"+tool, map[string]any{"target": target, "port": nil})
			if a.Status != 400 || a.Error.Fields["target"] == "" && tool != "tcp" {
				t.Errorf("%s %q: %d %s", tool, target, a.Status, a.Body)
			}
		}
		b.Do(t, "admin", http.MethodPost, "/diagnostics/"+tool, `{}`).Want(t, 400)
	}
	for _, target := range []string{"file:///etc/passwd", "ftp://a.example/", "gopher://a.example/", "file:/etc/passwd"} {
		if a := b.Do(t, "admin", http.MethodPost, "/diagnostics/curl", map[string]any{"target": target}); a.Status != 400 {
			t.Errorf("curl %q: %d", target, a.Status)
		}
	}
	for _, kind := range []string{"AXFR", "ANY", "a", ""} {
		if a := b.Do(t, "admin", http.MethodPost, "/diagnostics/dig", map[string]any{"target": "a.example", "type": kind}); a.Status != 400 || a.Error.Fields["type"] == "" {
			t.Errorf("dig %q: %d %s", kind, a.Status, a.Body)
		}
	}
	for body, field := range map[string]string{`{"target":"a.example"}`: "port", `{"target":"a.example:80","port":81}`: "port", `{"target":"a.example","port":0}`: "port", `{"target":"a.example:0"}`: "target"} {
		if a := b.Do(t, "admin", http.MethodPost, "/diagnostics/tcp", body); a.Status != 400 || a.Error.Fields[field] == "" {
			t.Errorf("tcp %s: %d %s", body, a.Status, a.Body)
		}
	}
	b.Machine.ScriptProbes(nil)
	for _, kind := range []string{"A", "AAAA", "CNAME", "MX", "TXT", "NS", "SOA", "PTR", "SRV", "CAA"} {
		b.Do(t, "admin", http.MethodPost, "/diagnostics/dig", map[string]any{"target": "a.example", "type": kind}).Want(t, 200)
	}
}

func TestTCP(t *testing.T) {
	b := start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, open, _ := net.SplitHostPort(l.Addr().String())
	for _, x := range []struct {
		target string
		status int
		says   string
	}{
		{"127.0.0.1:" + open, 0, "Connected to 127.0.0.1:" + open}, {"localhost:" + open, 0, "Connected"},
		{"127.0.0.1:1", 1, "the connection is refused"}, {"no.example:80", 1, "the name does not exist"},
	} {
		var r diag.Result
		b.Do(t, "admin", http.MethodPost, "/diagnostics/tcp", map[string]any{"target": x.target}).Want(t, 200).Into(t, &r)
		if r.ExitStatus != x.status || !strings.Contains(r.Output, x.says) || r.TimedOut {
			t.Errorf("%s: %+v", x.target, r)
		}
	}
	l.Close()
	if n := b.Audited(t, "diagnostics.tcp"); n != 4 {
		t.Errorf("%d entries", n)
	}
}

func TestMissingProgram(t *testing.T) {
	b := start(t)
	b.Machine.ScriptProbes(func(context.Context, host.Probe, func([]byte)) (host.ProbeEnd, error) {
		return host.ProbeEnd{}, fmt.Errorf("traceroute: %w", host.ErrNotInstalled)
	})
	if a := b.Do(t, "admin", http.MethodPost, "/diagnostics/traceroute", `{"target":"a.example"}`).Want(t, 503); !strings.Contains(a.Error.Message, "traceroute is not installed") {
		t.Error(a.Error.Message)
	}
}

// stuck makes every probe run until it is ended, and reports when probes begin and end.
func (b *bench) stuck() (begun, ended chan string) {
	begun, ended = make(chan string, 100), make(chan string, 100)
	b.Machine.ScriptProbes(func(ctx context.Context, p host.Probe, sink func([]byte)) (host.ProbeEnd, error) {
		sink([]byte("begun\n"))
		begun <- p.Target
		<-ctx.Done()
		ended <- p.Target
		return host.ProbeEnd{}, context.Cause(ctx)
	})
	return begun, ended
}

func TestOnlySoManyAtOnce(t *testing.T) {
	b := start(t)
	begun, ended := b.stuck()
	ctx, hangUp := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			if _, err := b.post(ctx, "/diagnostics/ping", map[string]any{"target": "a.example"}); !errors.Is(err, context.Canceled) {
				t.Errorf("err = %v", err)
			}
		})
	}
	for range 4 {
		<-begun
	}
	a := b.Do(t, "admin", http.MethodPost, "/diagnostics/ping", `{"target":"b.example"}`).Want(t, 429)
	if a.Header.Get("Retry-After") == "" {
		t.Error("it is not said when to try again")
	}
	b.Do(t, "admin", http.MethodPost, "/diagnostics/path", `{"destination":"192.0.2.1","port":80}`).Want(t, 429)
	// Callers who hang up end their programs, and make room.
	hangUp()
	callers.Wait()
	for range 4 {
		<-ended
	}
	b.Machine.ScriptProbes(nil)
	waittest.Until(t, "room is made", func() bool {
		return b.Do(t, "admin", http.MethodPost, "/diagnostics/ping", `{"target":"b.example"}`).Status == 200
	})
}

// events follows a run.
func (b *bench) events(t *testing.T, role string, run uuid.UUID) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(b.server.URL, "http", "ws", 1)+httpd.Prefix+"/diagnostics/live?run="+run.String(), &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + role}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

func next(t *testing.T, conn *websocket.Conn) (e diag.Event) {
	t.Helper()
	_, frame, err := conn.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(frame, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRunIsFollowed(t *testing.T) {
	b := start(t)
	goOn := make(chan struct{})
	b.Machine.ScriptProbes(func(_ context.Context, _ host.Probe, sink func([]byte)) (host.ProbeEnd, error) {
		sink([]byte("one\n"))
		<-goOn
		sink([]byte("two\n"))
		return host.ProbeEnd{}, nil
	})
	run := uuid.New()
	conn := b.events(t, "admin", run) // before it begins
	answered := make(chan *http.Response, 1)
	go func() {
		res, err := b.post(t.Context(), "/diagnostics/ping", map[string]any{"target": "a.example", "run": run})
		if err != nil {
			t.Error(err)
		}
		answered <- res
	}()
	if e := next(t, conn); e.Output != "one\n" || e.Over {
		t.Errorf("%+v", e)
	}
	late := b.events(t, "admin", run) // gets the earlier output, too
	if e := next(t, late); e.Output != "one\n" {
		t.Errorf("%+v", e)
	}
	b.Do(t, "admin", http.MethodPost, "/diagnostics/ping", map[string]any{"target": "a.example", "run": run}).Want(t, 400)
	close(goOn)
	for _, follower := range []*websocket.Conn{conn, late} {
		if e := next(t, follower); e.Output != "two\n" {
			t.Errorf("%+v", e)
		}
		if e := next(t, follower); !e.Over {
			t.Errorf("%+v", e)
		}
	}
	res := <-answered
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Error(res.Status)
	}
}

func TestFollowerWhoHangsUpEndsTheRun(t *testing.T) {
	b := start(t)
	begun, ended := b.stuck()
	run := uuid.New()
	conn := b.events(t, "admin", run)
	status := make(chan int, 1)
	go func() {
		res, err := b.post(t.Context(), "/diagnostics/ping", map[string]any{"target": "a.example", "run": run})
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		status <- res.StatusCode
	}()
	<-begun
	next(t, conn)
	conn.CloseNow()
	<-ended
	if s := <-status; s != 503 {
		t.Errorf("the request is answered %d", s)
	}
}

func TestViewersFollowNothing(t *testing.T) {
	b := start(t)
	_, res, err := websocket.Dial(t.Context(), strings.Replace(b.server.URL, "http", "ws", 1)+httpd.Prefix+"/diagnostics/live?run="+uuid.NewString(), &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}})
	if err == nil || res.StatusCode != 403 {
		t.Errorf("%v, %v", res, err)
	}
}

// pcap returns a file with n packets of the given size.
func pcap(n, size int) []byte {
	file := binary.NativeEndian.AppendUint32(nil, 0xa1b2c3d4)
	file = append(file, make([]byte, 20)...)
	for i := range n {
		file = binary.NativeEndian.AppendUint32(file, uint32(i))
		file = binary.NativeEndian.AppendUint32(file, 0)
		file = binary.NativeEndian.AppendUint32(file, uint32(size))
		file = binary.NativeEndian.AppendUint32(file, uint32(size))
		file = append(file, make([]byte, size)...)
	}
	return file
}

func TestCapture(t *testing.T) {
	b := start(t)
	b.Machine.SetLinks(host.Link{Name: "lan0", Index: 2})
	var asked host.Capture
	b.Machine.ScriptProbes(func(ctx context.Context, p host.Probe, sink func([]byte)) (host.ProbeEnd, error) {
		asked = p.Capture
		// In pieces that end in the middle of packets.
		for file := pcap(1000, 100); len(file) > 0 && ctx.Err() == nil; {
			n := min(len(file), 777)
			sink(file[:n])
			file = file[n:]
		}
		return host.ProbeEnd{}, context.Cause(ctx)
	})
	res, err := b.post(t.Context(), "/diagnostics/capture", map[string]any{"interface": "lan0", "protocol": "tcp", "host": "192.0.2.7", "port": 443, "bytes": 2000, "seconds": 9, "packets": 77})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	file, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/vnd.tcpdump.pcap" || !strings.HasPrefix(res.Header.Get("Content-Disposition"), "attachment; filename=lan0-") {
		t.Fatalf("%s %v %v", res.Status, res.Header, err)
	}
	// As many complete packets as fit.
	if want := pcap((2000-24)/116, 100); !bytes.Equal(file, want) {
		t.Errorf("%d bytes, want %d", len(file), len(want))
	}
	if asked.Interface != "lan0" || asked.Protocol != "tcp" || asked.Host.String() != "192.0.2.7/32" || asked.Port != 443 || asked.Packets != 77 || asked.Within != 9*time.Second || !asked.Without.Addr().IsLoopback() {
		t.Errorf("%+v", asked)
	}
	if b.Audited(t, "diagnostics.capture") != 1 {
		t.Error("not audited")
	}
	for body, field := range map[string]string{
		`{"interface":"nope"}`: "interface", `{}`: "interface", `{"interface":"-i"}`: "interface", `{"interface":"lan0","port":70000}`: "port", `{"interface":"lan0","protocol":"icmp","port":1}`: "port",
		`{"interface":"lan0","protocol":"tcp or udp"}`: "protocol", `{"interface":"lan0","host":"a.example"}`: "host", `{"interface":"lan0","bytes":1000000000}`: "bytes", `{"interface":"lan0","seconds":301}`: "seconds",
		`{"interface":"lan0","packets":0}`: "packets", `{"interface":"lan0","protocol":"icmp6","host":"192.0.2.1"}`: "host",
	} {
		if a := b.Do(t, "admin", http.MethodPost, "/diagnostics/capture", body); a.Status != 400 || a.Error.Fields[field] == "" {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	b.Do(t, "viewer", http.MethodPost, "/diagnostics/capture", `{"interface":"lan0"}`).Want(t, 403)
}

func TestOneCaptureAtATimeUntilItsCallerHangsUp(t *testing.T) {
	b := start(t)
	b.Machine.SetLinks(host.Link{Name: "lan0", Index: 2})
	begun, ended := make(chan struct{}), make(chan struct{})
	b.Machine.ScriptProbes(func(ctx context.Context, _ host.Probe, sink func([]byte)) (host.ProbeEnd, error) {
		sink(pcap(1, 10))
		close(begun)
		<-ctx.Done()
		close(ended)
		return host.ProbeEnd{}, context.Cause(ctx)
	})
	ctx, hangUp := context.WithCancel(t.Context())
	res, err := b.post(ctx, "/diagnostics/capture", map[string]any{"interface": "lan0"})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	first := make([]byte, 50)
	if _, err := io.ReadFull(res.Body, first); err != nil || !bytes.Equal(first, pcap(1, 10)) {
		t.Errorf("what is there is not sent: %v", err)
	}
	b.Do(t, "admin", http.MethodPost, "/diagnostics/capture", `{"interface":"lan0"}`).Want(t, 409)
	hangUp()
	<-ended
	res.Body.Close()
	// An error before there is a file is reported.
	b.Machine.ScriptProbes(func(context.Context, host.Probe, func([]byte)) (host.ProbeEnd, error) {
		return host.ProbeEnd{ExitStatus: 1, Stderr: "tcpdump: lan0: That device is not up"}, nil
	})
	waittest.Until(t, "the former capture has ended", func() bool {
		a := b.Do(t, "admin", http.MethodPost, "/diagnostics/capture", `{"interface":"lan0"}`)
		reported := a.Status == 503 && strings.Contains(a.Error.Message, "is not up")
		if !reported && a.Status != 409 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		return reported
	})
}

func connection(n int) host.Connection {
	from, to := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), netip.MustParseAddr("198.51.100.2")
	return host.Connection{
		ConnectionKey: host.ConnectionKey{Flow: host.Flow{Source: from, Destination: to, SourcePort: 5000, DestinationPort: 443}, Protocol: 6, ID: uint32(n)},
		Reply:         host.Flow{Source: to, Destination: netip.MustParseAddr("198.51.100.1"), SourcePort: 443, DestinationPort: 6000},
		State:         3, Replied: true, SourceNAT: true, SentBytes: 7,
	}
}

// A kernel that does not answer blocks nobody, and repeated requests are answered, too.
func TestConnectionsOfAKernelThatHangs(t *testing.T) {
	b := start(t)
	b.Machine.Hang(true)
	for range 2 {
		var page diag.Connections
		b.Get(t, "/diagnostics/connections").Want(t, 200).Into(t, &page)
		if page.Connections == nil || page.Error == "" {
			t.Errorf("%+v", page)
		}
	}
}

func TestConnections(t *testing.T) {
	b := start(t)
	var table []host.Connection
	for n := range 250 {
		table = append(table, connection(n))
	}
	udp := connection(999)
	udp.Protocol, udp.State, udp.Replied, udp.DestinationPort = 17, 0, false, 53
	b.Machine.SetConnections(append(table, udp)...)
	seen := map[string]bool{}
	for after := ""; ; {
		var page diag.Connections
		b.Do(t, "viewer", http.MethodGet, "/diagnostics/connections?protocol=tcp&limit=100&after="+after, nil).Want(t, 200).Into(t, &page)
		if page.Total != 251 || page.Matching != 250 || page.Error != "" {
			t.Fatalf("%d of %d: %s", page.Matching, page.Total, page.Error)
		}
		for _, c := range page.Connections {
			seen[c.ID] = true
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(seen) != 250 {
		t.Errorf("the pages have %d connections", len(seen))
	}
	var page diag.Connections
	b.Get(t, "/diagnostics/connections?source=10.0.0.7&destination=198.51.100.0/24&port=6000&state=established").Want(t, 200).Into(t, &page)
	if len(page.Connections) != 1 {
		t.Fatalf("%+v", page)
	}
	c := page.Connections[0]
	if c.Protocol != "tcp" || c.State != "established" || c.Source != "10.0.0.7" || *c.SourcePort != 5000 || c.SeenSource != "198.51.100.1" || *c.SeenSourcePort != 6000 || c.NAT != "source" || c.SentBytes != 7 {
		t.Errorf("%+v", c)
	}
	b.Get(t, "/diagnostics/connections?state=unreplied").Want(t, 200).Into(t, &page)
	if len(page.Connections) != 1 || page.Connections[0].State != "unreplied" || page.Connections[0].Protocol != "udp" {
		t.Errorf("%+v", page)
	}
	for query, field := range map[string]string{"limit=1001": "limit", "limit=0": "limit", "port=0": "port", "port=x": "port", "protocol=http": "protocol", "state=open": "state", "source=a.example": "source", "after=zzz": "after", "source=10.0.0.1&destination=::1": "destination"} {
		if a := b.Get(t, "/diagnostics/connections?"+query); a.Status != 400 || a.Error.Fields[field] == "" {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	b.Do(t, "viewer", http.MethodDelete, "/diagnostics/connections/"+c.ID, nil).Want(t, 403)
	b.Do(t, "admin", http.MethodDelete, "/diagnostics/connections/"+c.ID, nil).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/diagnostics/connections/"+c.ID, nil).Want(t, 404)
	for _, id := range []string{"x", uuid.NewString(), c.ID + "A", strings.Repeat("A", 40)} {
		b.Do(t, "admin", http.MethodDelete, "/diagnostics/connections/"+id, nil).Want(t, 404)
	}
	if n := b.Audited(t, "diagnostics.connection.delete"); n != 1 {
		t.Errorf("%d entries", n)
	}
}
