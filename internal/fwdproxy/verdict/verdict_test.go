package verdict_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edge.internal/gateway/internal/fwdproxy/verdict"
)

// monday is a Monday, 12:30.
var monday = time.Date(2026, 11, 16, 12, 30, 0, 0, time.UTC)

func request() *verdict.Request {
	return &verdict.Request{Source: netip.MustParseAddr("10.0.0.7"), Method: "GET", Host: "www.example.net", Port: 80, URL: "http://www.example.net/a b", At: monday}
}

func list(t *testing.T, entries ...verdict.Entry) *verdict.List {
	t.Helper()
	l, err := verdict.New("x", entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTypes(t *testing.T) {
	for _, x := range []struct {
		kind, value string
		change      func(*verdict.Request)
		want        bool
	}{
		{kind: "src", value: "10.0.0.7", want: true},
		{kind: "src", value: "10.0.0.0/24", want: true},
		{kind: "src", value: "10.0.0.0-10.0.0.7", want: true},
		{kind: "src", value: "10.0.0.8-10.0.0.9 10.0.1.0/24 ::/0", want: false},
		{kind: "src", value: "0.0.0.0/0", want: true},
		{kind: "src", value: "2001:db8::/32", change: func(r *verdict.Request) { r.Source = netip.MustParseAddr("2001:db8::9") }, want: true},
		{kind: "src", value: "0.0.0.0/0", change: func(r *verdict.Request) { r.Source = netip.MustParseAddr("2001:db8::9") }, want: false},
		{kind: "dstdomain", value: "WWW.Example.Net.", want: true},
		{kind: "dstdomain", value: ".example.net", want: true},
		{kind: "dstdomain", value: ".net", want: true},
		{kind: "dstdomain", value: ".www.example.net", want: true},
		{kind: "dstdomain", value: "example.net .ww.example.net .ample.net net www", want: false},
		{kind: "dstdomain", value: ".example.net", change: func(r *verdict.Request) { r.Host = "10.1.2.3" }, want: false},
		{kind: "dstdom_regex", value: "^WWW\\.", want: true},
		{kind: "dstdom_regex", value: "^example", want: false},
		{kind: "url_regex", value: "/a\\sb$", want: true},
		{kind: "url_regex", value: "/A", want: false},
		{kind: "url_regex", value: "(?i)/A", want: true},
		{kind: "port", value: "79 80", want: true},
		{kind: "port", value: "1-79 81-65535", want: false},
		{kind: "method", value: "post get", want: true},
		{kind: "method", value: "POST", want: false},
		{kind: "time", value: "M", want: true},
		{kind: "time", value: "D", want: true},
		{kind: "time", value: "SA", want: false},
		{kind: "time", value: "12:30-12:30", want: true},
		{kind: "time", value: "12:31-24:00 0:00-12:29", want: false},
		{kind: "time", value: "MTWHF 08:00-12:29 A", want: false},
		{kind: "time", value: "SMTWHFA 08:00-12:29", want: false},
		{kind: "time", value: "A 08:00-12:29 M 12:00-13:00", want: true},
		{kind: "time", value: "A 08:00-09:00 12:00-13:00", want: true},
		{kind: "time", value: "A M", want: true},
	} {
		r := request()
		if x.change != nil {
			x.change(r)
		}
		for _, allow := range []bool{true, false} {
			got := list(t, verdict.Entry{Type: x.kind, Value: x.value, Allow: allow, Position: 3}).Judge(r)
			want := verdict.Verdict{}
			if x.want {
				want = verdict.Verdict{Decided: true, Allow: allow, Position: 3}
			}
			if got != want {
				t.Errorf("%s %q: %+v", x.kind, x.value, got)
			}
		}
	}
}

func TestBadValues(t *testing.T) {
	for kind, values := range map[string][]string{
		"src":          {"", " ", "x", "10.0.0.0/33", "10.0.0.9-10.0.0.1", "10.0.0.1-::1", "10.0.0.1,10.0.0.2", "fe80::1%eth0", "::/1", "::-::ffff:ffff:ffff"},
		"dstdomain":    {"..a", "a..b", "*.a", "10.0.0.1", ".10.0.0.1", "a/b", "-a", "[::1]", "ä.example"},
		"dstdom_regex": {"(", "[", "a**", "\\", "-i a", "+i", "(?<x", "\\xZZ", "a\x00", "a\u2028", "\xff"},
		"url_regex":    {"(a", "x{1001}", "a{2,1}", "\\8", "(?=a)"},
		"port":         {"0", "65536", "-1", "9-8", "1-", "a", "80,81", "+80", "0x50"},
		"method":       {"G/T", "\"GET\"", "GET,PUT", "1GET", strings.Repeat("A", 33)},
		"time":         {"X", "m", "8-9", "08:00", "08:00-07:59", "24:01-24:02", "08:60-09:00", "M,T", "08:00 - 09:00"},
		"nothing":      {"x"},
	} {
		for _, text := range values {
			if err := verdict.Check(kind, text); err == nil {
				t.Errorf("%s takes %q", kind, text)
			}
		}
	}
	if err := verdict.Check("url_regex", "abc (de(f"); err == nil || !strings.Contains(err.Error(), "missing closing )") || !strings.Contains(err.Error(), "at character 1") {
		t.Errorf("%v", err)
	}
	if err := verdict.Check("url_regex", "abc[z-a]"); err == nil || !strings.Contains(err.Error(), "at character 5: z-a") {
		t.Errorf("%v", err)
	}
}

func TestPorts(t *testing.T) {
	for _, x := range []struct {
		method string
		port   int
		open   string // allowed by an entry
		closed bool
	}{
		{"GET", 80, "", false}, {"GET", 443, "", false}, {"GET", 25, "", true}, {"GET", 22, "", true}, {"GET", 1024, "", true}, {"GET", 1025, "", false}, {"GET", 25, "20-30", false},
		{"CONNECT", 443, "", false}, {"CONNECT", 80, "", true}, {"CONNECT", 8443, "", true}, {"CONNECT", 8443, "8443", false}, {"CONNECT", 25, "8443", true},
	} {
		entries := []verdict.Entry{{Type: "src", Value: "0.0.0.0/0", Allow: true, Position: 1}}
		if x.open != "" {
			entries = append(entries, verdict.Entry{Type: "port", Value: x.open, Allow: true})
		}
		entries = append(entries, verdict.Entry{Type: "port", Value: "1-65535"})
		r := request()
		r.Method, r.Port = x.method, x.port
		got := list(t, entries...).Judge(r)
		if want := (verdict.Verdict{Decided: true, Allow: !x.closed}); got.Allow != want.Allow || !got.Decided || x.closed && got.Position != 0 {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// Lookups must find the same as trying one entry after the other.
func TestFirstMatchDecides(t *testing.T) {
	names := []string{"a.example", "b.a.example", "c.b.a.example", "example", "xa.example"}
	values := map[string][]string{
		"src":          {"10.0.0.1", "10.0.0.0/24", "10.0.0.0/8", "10.0.0.2-10.0.1.5", "::/0", "2001:db8::/64", "2001:db8::1-2001:db8::5"},
		"dstdomain":    {"a.example", ".a.example", ".example", "b.a.example", ".b.a.example", "xa.example"},
		"dstdom_regex": {"^a", "b\\.", "example$"},
		"url_regex":    {"^http://a", "/x$", "y"},
		"port":         {"80", "81-8000", "443"},
		"method":       {"GET", "PUT", "CONNECT GET"},
		"time":         {"M", "A", "12:00-13:00", "T 01:00-02:00"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		var entries []verdict.Entry
		for i := range rapid.IntRange(0, 12).Draw(rt, "n") {
			kind := rapid.SampledFrom([]string{"src", "dstdomain", "dstdom_regex", "url_regex", "port", "method", "time"}).Draw(rt, "kind")
			some := rapid.SliceOfN(rapid.SampledFrom(values[kind]), 1, 3).Draw(rt, "values")
			entries = append(entries, verdict.Entry{Type: kind, Value: strings.Join(some, " "), Allow: rapid.Bool().Draw(rt, "allow"), Position: i})
		}
		r := &verdict.Request{
			Source: netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.3", "10.1.0.1", "192.0.2.1", "2001:db8::1", "2001:db8:1::1"}).Draw(rt, "source")),
			Method: rapid.SampledFrom([]string{"GET", "PUT", "POST"}).Draw(rt, "method"), Host: rapid.SampledFrom(names).Draw(rt, "host"),
			Port: rapid.SampledFrom([]int{80, 443, 8000}).Draw(rt, "port"), At: monday.Add(time.Duration(rapid.IntRange(0, 7*24).Draw(rt, "hour")) * time.Hour),
		}
		r.URL = "http://" + r.Host + rapid.SampledFrom([]string{"/", "/x", "/y"}).Draw(rt, "path")
		want := verdict.Verdict{}
		for _, e := range entries {
			l, err := verdict.New("x", []verdict.Entry{e})
			if err != nil {
				rt.Fatal(err)
			}
			if v := l.Judge(r); v.Decided {
				want = v
				break
			}
		}
		l, err := verdict.New("x", entries)
		if err != nil {
			rt.Fatal(err)
		}
		if got := l.Judge(r); got != want {
			rt.Fatalf("%+v instead of %+v for %+v by %+v", got, want, r, entries)
		}
	})
}

func TestRead(t *testing.T) {
	good := "# a comment\nlayout 0a 2\ndeny 0 dstdomain .example.net www.example.org\nallow 1 url_regex ^# \"x\" $\n"
	l, err := verdict.Read([]byte(good))
	if err != nil || l.Layout != "0a" {
		t.Fatalf("%v", err)
	}
	if v := l.Judge(request()); v != (verdict.Verdict{Decided: true}) {
		t.Errorf("%+v", v)
	}
	for _, bad := range []string{
		"", "# only\n", "layout\n", "layout 0a\n", "layout 0a x\n", "layout 0a -1\n", "deny 0 src 10.0.0.1\n", "layout 0a 1\n", "layout 0a 0\ndeny 0 src 10.0.0.1\n",
		"layout 0a 1\nperhaps 0 src 10.0.0.1\n", "layout 0a 1\ndeny x src 10.0.0.1\n", "layout 0a 1\ndeny -1 src 10.0.0.1\n", "layout 0a 1\ndeny 0 src\n", "layout 0a 1\ndeny 0 what 10.0.0.1\n",
		"layout 0a 1\ndeny 0 url_regex (\n", "layout 0a 1\n\n", "layout 0a 2\ndeny 0 src 10.0.0.1\nlayout 0b 1\n",
	} {
		if _, err := verdict.Read([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	// A truncated file is invalid.
	lines := strings.SplitAfter(good, "\n")
	for n := range lines[:len(lines)-1] {
		if _, err := verdict.Read([]byte(strings.Join(lines[:n], ""))); err == nil {
			t.Errorf("%d lines are taken", n)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{200, 20_000} {
		entries := make([]verdict.Entry, n)
		for i := range entries {
			entries[i] = verdict.Entry{Type: "dstdomain", Value: fmt.Sprintf(".host%d.example", i)}
		}
		l, err := verdict.New("x", entries)
		if err != nil {
			b.Fatal(err)
		}
		r := request()
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				l.Judge(r)
			}
		})
	}
}
