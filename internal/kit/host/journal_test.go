package host

import (
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
)

func TestTextLevel(t *testing.T) {
	for text, want := range map[string]Level{
		`time=2026-01-01T00:00:00.000Z level=WARN msg="database is not attached"`: LevelWarn,
		`time="2026-01-01T00:00:00Z" level=fatal msg="no"`:                        LevelError,
		`[ALERT]    (12) : parsing [x:3] : unknown keyword`:                       LevelError,
		`[WARNING]  (12) : Server b/s is going DOWN`:                              LevelWarn,
		`[NOTICE]   (12) : New worker (13) forked`:                                LevelInfo,
		`Server web/one is DOWN, reason: Layer4 connection problem`:               LevelWarn,
		`backend web has no server available!`:                                    LevelError,
		`ERROR DHCP4_PACKET_SEND_FAIL no`:                                         LevelError,
		`WARN  DHCP4_RESERVATIONS x`:                                              LevelWarn,
		`[1700000000] unbound[12:0] error: can't bind socket`:                     LevelError,
		`[1700000000] unbound[12:0] notice: init module 0`:                        LevelInfo,
		`[12:0] fatal error: could not open ports`:                                LevelError,
		`Mon Jan  1 00:00:00 2026 : Error: Ignoring request`:                      LevelError,
		`2026/01/01 00:00:00 kid1| WARNING: no servers`:                           LevelWarn,
		`2026/01/01 00:00:00| FATAL: Bungled`:                                     LevelError,
		`panic: runtime error: index out of range`:                                LevelError,
		`192.0.2.1:4711 [01/Jan/2026:00:00:00.000] gateway_https~ b/s 0/0/1/2/3 503 10 - - SC-- 1/1/0/0/0 0/0 "GET / HTTP/1.1"`:       LevelError,
		`192.0.2.1:4711 [01/Jan/2026:00:00:00.000] gateway_https~ b/s 0/0/1/2/3 404 10 - - ---- 1/1/0/0/0 0/0 "GET /error: HTTP/1.1"`: LevelInfo,
	} {
		if got, ok := TextLevel(text); !ok || got != want {
			t.Errorf("%s: %d, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "selected source 192.0.2.1", "an error occurred", "error rate is low", "informational: x", "errors: 0"} {
		if level, ok := TextLevel(text); ok {
			t.Errorf("%q has level %d", text, level)
		}
	}
}

func TestReadable(t *testing.T) {
	for b, want := range map[string]string{
		"plain\ttext\n":     "plain\ttext\n",
		"a\x00b\x1b[31mc":   "a\ufffdb\ufffd[31mc",
		"\xff\xfe":          "\ufffd\ufffd",
		"Grüße":             "Grüße",
		"exe\u202efdp.txt":  "exe\ufffdfdp.txt",
		"c1\u0085next":      "c1\ufffdnext",
		"<img onerror=x()>": "<img onerror=x()>",
	} {
		if got := Readable([]byte(b)); got != want {
			t.Errorf("%q became %q", b, got)
		}
	}
}

// HAProxy's requests and its own messages come from one unit, but are two sources.
func TestJournalFilter(t *testing.T) {
	now := time.Now()
	line := `192.0.2.1:4711 [01/Jan/2026:00:00:00.000] gateway_https~ b/s 0/0/1/2/3 200 10 - - ---- 1/1/0/0/0 0/0 "GET /Path?a=#22b#22&token=secret HTTP/1.1" - 0198 - -`
	say := func(of, text string) JournalLine {
		return JournalLine{At: now, Of: [3]string{of}, Priority: 6, Plain: true, Text: []byte(text)}
	}
	match := func(q JournalQuery, line JournalLine) (JournalEntry, bool) {
		t.Helper()
		if err := q.Check(); err != nil {
			t.Fatal(err)
		}
		return NewJournalFilter(q).Match(line)
	}
	both := []LogSource{haproxy.LogSource, haproxy.RequestsLogSource}
	e, ok := match(JournalQuery{Sources: both, Level: LevelDebug, Words: []string{"/PATH"}}, say("haproxy.service", line))
	if !ok || e.Source != haproxy.RequestsLogSource || strings.Contains(e.Text, "secret") || !strings.Contains(e.Text, "/Path?… HTTP") {
		t.Errorf("%+v, %t", e, ok)
	}
	if e, ok = match(JournalQuery{Sources: both, Level: LevelDebug}, say("haproxy.service", "[NOTICE] (1) : x")); !ok || e.Source != haproxy.LogSource {
		t.Errorf("%+v, %t", e, ok)
	}
	for name, x := range map[string]struct {
		q    JournalQuery
		line JournalLine
	}{
		"another unit":     {JournalQuery{Sources: both, Level: LevelDebug}, say("ssh.service", line)},
		"not its requests": {JournalQuery{Sources: both[:1], Level: LevelDebug}, say("haproxy.service", line)},
		"only requests":    {JournalQuery{Sources: both[1:], Level: LevelDebug}, say("haproxy.service", "x")},
		"hidden query":     {JournalQuery{Sources: both, Level: LevelDebug, Words: []string{"secret"}}, say("haproxy.service", line)},
		"level":            {JournalQuery{Sources: both, Level: LevelWarn}, say("haproxy.service", line)},
		"too late":         {JournalQuery{Sources: both, Level: LevelDebug, Until: now.Add(-1)}, say("haproxy.service", line)},
		"too early":        {JournalQuery{Sources: both, Level: LevelDebug, Since: now.Add(1)}, say("haproxy.service", line)},
	} {
		if e, ok := match(x.q, x.line); ok {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if _, ok = match(JournalQuery{Sources: both, Level: LevelDebug, Words: []string{"GRÜSSE", "und"}}, say("haproxy.service", "Grüsse und mehr")); !ok {
		t.Error("words outside ASCII are not found without regard to case")
	}
}

func TestJournalQueriesAreClosed(t *testing.T) {
	good := JournalQuery{Sources: []LogSource{APILogSource}, Level: LevelInfo, Before: "s=0123456789abcdef;i=2;b=3;m=4;t=5;x=6"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*JournalQuery){
		"no source":      func(q *JournalQuery) { q.Sources = nil },
		"another source": func(q *JournalQuery) { q.Sources = []LogSource{"ssh"} },
		"no level":       func(q *JournalQuery) { q.Level = 9 },
		"negative level": func(q *JournalQuery) { q.Level = -1 },
		"an option":      func(q *JournalQuery) { q.Before = "--file=/etc/shadow" },
		"long word":      func(q *JournalQuery) { q.Words = []string{strings.Repeat("x", 2000)} },
		"many words":     func(q *JournalQuery) { q.Words = make([]string, 9) },
	} {
		q := good
		spoil(&q)
		if q.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestEveryLogSourceIsComplete(t *testing.T) {
	for _, d := range daemons {
		for v, spec := range d.Sources {
			if len(spec.Services) == 0 && spec.Slice == "" {
				t.Errorf("%s has neither services nor a slice", v)
			}
		}
	}
}
