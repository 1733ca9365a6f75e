package judge_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/fwdproxy/judge"
	"edge.internal/gateway/internal/fwdproxy/verdict"
	"edge.internal/gateway/internal/kit/waittest"
)

// running is a judge with a squid that asks it.
type running struct {
	judge.Options
	in   *io.PipeWriter
	out  *io.PipeReader
	log  bytes.Buffer
	done chan error
}

func start(t *testing.T, content string) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{done: make(chan error, 1), Options: judge.Options{
		Configuration: "mark", List: filepath.Join(dir, "list"), Socket: filepath.Join(dir, "sock"), Now: func() time.Time { return time.Unix(0, 0) },
	}}
	if content != "" {
		r.install(t, content)
	}
	var in *io.PipeReader
	var out *io.PipeWriter
	in, r.in = io.Pipe()
	r.out, out = io.Pipe()
	go func() { r.done <- judge.Run(r.Options, in, out, &r.log) }()
	t.Cleanup(func() {
		r.in.Close()
		<-r.done
	})
	return r
}

func (r *running) install(t *testing.T, content string) {
	t.Helper()
	if err := os.WriteFile(r.List, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask asks like squid.
func (r *running) ask(t *testing.T, question string) string {
	t.Helper()
	if _, err := io.WriteString(r.in, question+"\n"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1000)
	n, err := r.out.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(answer[:n]), "\n")
}

// command sends a command like the gateway.
func (r *running) command(t *testing.T, command string) string {
	t.Helper()
	conn, err := net.Dial("unix", r.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(answer))
}

const question = "7 10.0.0.1 GET www.example.net 80 http://www.example.net/ -"

func TestAnswers(t *testing.T) {
	r := start(t, "layout ab 3\ndeny 0 dstdomain www.example.net\nallow 2 url_regex ^http://b/%%zz\\(é\\)$\ndeny 1 dstdomain c.example\n")
	for ask, want := range map[string]string{
		question: "7 OK verdict_=ab-deny-0",
		"0 ::ffff:10.0.0.1 get WWW.Example.Net. 80 http://x/ -":      "0 OK verdict_=ab-deny-0",
		"1 10.0.0.1 GET b 80 http://b/%25%%7A%7a(%C3%A9) -":          "1 OK verdict_=ab-allow-2",
		"2 10.0.0.1 GET b 80 http://b/other -":                       "2 OK verdict_=ab-pass",
		"3 2001:db8::1 CONNECT c.example 443 c.example:443 -":        "3 OK verdict_=ab-deny-1",
		"4 10.0.0.1 CONNECT %5B2001:db8::1%5D 8443 %5B::1%5D:8443 -": "4 OK verdict_=ab-deny-0",
	} {
		if got := r.ask(t, ask); got != want {
			t.Errorf("%q: %q", ask, got)
		}
	}
}

// What is not understood is denied: squid only lets requests with a verdict pass.
func TestWhatIsNotUnderstood(t *testing.T) {
	r := start(t, "layout ab 0\n")
	if got := r.ask(t, question); got != "7 OK verdict_=ab-pass" {
		t.Fatal(got)
	}
	for _, ask := range []string{
		"", "1", "1 ", "x y z", "1 10.0.0.1 GET a 80 http://a/", "1 10.0.0.1 GET a 80 http://a/ - -", "1 10.0.0.1 GET a 80 http://a/ x", "1 nobody GET a 80 http://a/ -", "1 - GET a 80 http://a/ -",
		"1 10.0.0.1 GET a x http://a/ -", "1 10.0.0.1 GET a 99999 http://a/ -", "1 10.0.0.1  a 80 http://a/ -", "1 10.0.0.1 GET  80 http://a/ -", "1 10.0.0.1 GET a 80  -", "1 10.0.0.1 GET . 80 http://./ -",
	} {
		if got := r.ask(t, ask); strings.Contains(got, "OK") || !strings.Contains(got, " BH ") {
			t.Errorf("%q: %q", ask, got)
		}
	}
	if got := r.ask(t, question); got != "7 OK verdict_=ab-pass" {
		t.Fatal(got)
	}
}

func TestWithoutAList(t *testing.T) {
	for _, content := range []string{"", "layout ab 1\n", "rubbish\n", "layout ab 1\nallow 0 url_regex (\n"} {
		r := start(t, content)
		if got := r.ask(t, question); !strings.HasPrefix(got, "7 BH ") {
			t.Errorf("%q: %q", content, got)
		}
		if got := r.command(t, "state"); got != "ok mark -" {
			t.Errorf("%q: %q", content, got)
		}
		if got := r.command(t, "reload"); !strings.HasPrefix(got, "error ") {
			t.Errorf("%q: %q", content, got)
		}
		r.install(t, "layout cd 0\n")
		if got := r.command(t, "reload"); got != "ok mark "+verdict.Digest([]byte("layout cd 0\n")) {
			t.Errorf("%q: %q", content, got)
		}
		if got := r.ask(t, question); got != "7 OK verdict_=cd-pass" {
			t.Errorf("%q: %q", content, got)
		}
	}
}

func TestReload(t *testing.T) {
	const first, second = "layout ab 0\n", "layout ab 1\ndeny 0 method GET\n"
	r := start(t, first)
	r.ask(t, question)
	r.install(t, second)
	if got := r.command(t, "state"); got != "ok mark "+verdict.Digest([]byte(first)) {
		t.Error(got)
	}
	if got := r.ask(t, question); got != "7 OK verdict_=ab-pass" {
		t.Error(got)
	}
	if got := r.command(t, "reload"); got != "ok mark "+verdict.Digest([]byte(second)) {
		t.Error(got)
	}
	if got := r.ask(t, question); got != "7 OK verdict_=ab-deny-0" {
		t.Error(got)
	}
	// If the new list cannot be read, the present one stays.
	r.install(t, "rubbish")
	if got := r.command(t, "reload"); !strings.HasPrefix(got, "error ") {
		t.Error(got)
	}
	if got := r.ask(t, question); got != "7 OK verdict_=ab-deny-0" {
		t.Error(got)
	}
	if got := r.command(t, "dance"); got != "error no such command" {
		t.Error(got)
	}
	info, err := os.Stat(r.Socket)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
}

// A judge takes over the socket of its predecessor, which does not remove it when it ends.
func TestSocketChangesHands(t *testing.T) {
	a := start(t, "layout ab 0\n")
	a.ask(t, question)
	b := &running{Options: a.Options, done: make(chan error, 1)}
	b.Configuration = "next"
	in, write := io.Pipe()
	go func() { b.done <- judge.Run(b.Options, in, io.Discard, &b.log) }()
	next := "ok next " + verdict.Digest([]byte("layout ab 0\n"))
	waittest.Until(t, "the next one has the socket", func() bool { return a.command(t, "state") == next })
	a.in.Close()
	if err := <-a.done; err != nil {
		t.Error(err)
	}
	a.done <- nil
	if got := a.command(t, "state"); !strings.HasPrefix(got, "ok next ") {
		t.Error(got)
	}
	write.Close()
	if err := <-b.done; err != nil {
		t.Error(err)
	}
}

// It also judges without its socket.
func TestWithoutASocket(t *testing.T) {
	dir := t.TempDir()
	o := judge.Options{List: filepath.Join(dir, "list"), Socket: filepath.Join(dir, "nowhere", "sock"), Now: time.Now}
	if err := os.WriteFile(o.List, []byte("layout ab 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	if err := judge.Run(o, strings.NewReader(question+"\n"+question+"\n"), &out, &log); err != nil {
		t.Fatal(err)
	}
	if out.String() != "7 OK verdict_=ab-pass\n7 OK verdict_=ab-pass\n" || !strings.Contains(log.String(), "will not be noticed") {
		t.Errorf("%q, %q", out.String(), log.String())
	}
}

// A question that is longer than any of squid's ends the judge, and squid starts another one.
func TestEndlessQuestion(t *testing.T) {
	var out, log bytes.Buffer
	err := judge.Run(judge.Options{Now: time.Now}, strings.NewReader("1 "+strings.Repeat("a", 1<<20)+"\n"), &out, &log)
	if err == nil || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
