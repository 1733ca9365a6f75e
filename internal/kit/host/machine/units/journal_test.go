package units

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
)

// writeEntry writes an entry as journalctl does.
func writeEntry(w io.Writer, at time.Time, cursor string, fields ...string) {
	fmt.Fprintf(w, "__CURSOR=%s\n__REALTIME_TIMESTAMP=%d\n", cursor, at.UnixMicro())
	for i := 0; i < len(fields); i += 2 {
		name, value := fields[i], fields[i+1]
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == '\ufffd' }) {
			fmt.Fprintf(w, "%s\n", name)
			_ = binary.Write(w, binary.LittleEndian, uint64(len(value)))
			fmt.Fprintf(w, "%s\n", value)
		} else {
			fmt.Fprintf(w, "%s=%s\n", name, value)
		}
	}
	fmt.Fprintln(w)
}

var at = time.UnixMicro(1_770_000_000_123_456).UTC()

// searchAll runs a search that must succeed.
func searchAll(t *testing.T, journal io.Reader, q host.JournalQuery) (list []host.JournalEntry, place host.JournalPlace) {
	t.Helper()
	err := search(t.Context(), journal, q, func(batch []host.JournalEntry, at host.JournalPlace) {
		list, place = append(list, batch...), at
	})
	if !errors.Is(err, io.EOF) && !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	return list, place
}

func TestJournalEntry(t *testing.T) {
	var b bytes.Buffer
	writeEntry(&b, at, "s=1;i=2", "_SYSTEMD_UNIT", "unbound.service", "MESSAGE", "two\nlines \xff", "PRIORITY", "4", "_PID", "77",
		"_CMDLINE", "unbound --secret", "REQUEST_ID", "01J")
	writeEntry(&b, at.Add(-1), "s=1;i=1", "_SYSTEMD_UNIT", "init.scope", "UNIT", "unbound.service", "_PID", "1", "PRIORITY", "3",
		"MESSAGE", "Failed to start unbound.")
	writeEntry(&b, at.Add(-2), "s=1;i=0", "_SYSTEMD_UNIT", "other.service", "UNIT", "unbound.service", "_PID", "99", "MESSAGE", "forged")
	got, place := searchAll(t, &b, host.JournalQuery{Sources: []host.LogSource{unbound.LogSource}, Level: host.LevelDebug})
	want := []host.JournalEntry{
		{
			At: at, Cursor: "s=1;i=2", Source: unbound.LogSource, Level: host.LevelWarn, Text: "two\nlines \ufffd",
			Fields: []host.JournalField{{Name: "unit", Value: "unbound.service"}, {Name: "pid", Value: "77"}, {Name: "request_id", Value: "01J"}},
		},
		{
			At: at.Add(-1).Truncate(time.Microsecond), Cursor: "s=1;i=1", Source: unbound.LogSource, Level: host.LevelError,
			Text:   "Failed to start unbound.",
			Fields: []host.JournalField{{Name: "unit", Value: "init.scope"}, {Name: "about", Value: "unbound.service"}, {Name: "pid", Value: "1"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if place.Cursor != "s=1;i=0" {
		t.Errorf("the search ended at %+v", place)
	}
}

// Texts of megabytes are truncated in both forms of the format, and the entries after them are read.
func TestHugeEntries(t *testing.T) {
	const long = 8 << 20
	journal, in := io.Pipe()
	go func() {
		for i := range 20 {
			text := strings.Repeat("x", long)
			if i%2 == 0 {
				text = "\x00" + text
			}
			writeEntry(in, at, fmt.Sprintf("i=%x", 100-i), "_SYSTEMD_UNIT", "unbound.service", "MESSAGE", text,
				"SYSLOG_IDENTIFIER", strings.Repeat("y", long), "PRIORITY", "3")
		}
		in.Close()
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got, _ := searchAll(t, journal, host.JournalQuery{Sources: []host.LogSource{unbound.LogSource}, Level: host.LevelDebug})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(got) != 20 {
		t.Fatalf("%d entries", len(got))
	}
	for _, e := range got {
		if len(e.Text) > 3*host.LongestText || !e.Cut || e.Level != host.LevelError || len(e.Fields[1].Value) != host.LongestField {
			t.Fatalf("%d bytes, cut %t, %d", len(e.Text), e.Cut, e.Level)
		}
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
}

// Whatever the input, search returns and does not panic.
func TestMalformedJournal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{
		"MESSAGE=", "MESSAGE\n", "\n", "=", "__CURSOR=x\n", "__REALTIME_TIMESTAMP=1\n", "\x05\x00\x00\x00\x00\x00\x00\x00", "hello",
		"\xff\xff\xff\xff\xff\xff\xff\xff", "_PID=1\n",
	}
	for range 20000 {
		var b bytes.Buffer
		for range r.IntN(20) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		_ = search(t.Context(), &b, host.JournalQuery{Sources: []host.LogSource{host.APILogSource}}, ignore)
	}
}

func ignore([]host.JournalEntry, host.JournalPlace) {}

func TestJournalSearchEnds(t *testing.T) {
	var b bytes.Buffer
	for i := range 1000 {
		writeEntry(&b, at.Add(-time.Duration(i)*time.Second), fmt.Sprintf("i=%x", 1000-i),
			"_SYSTEMD_UNIT", "unbound.service", "MESSAGE", fmt.Sprint("entry ", i))
	}
	all := b.Bytes()
	q := host.JournalQuery{Sources: []host.LogSource{unbound.LogSource}, Level: host.LevelDebug, Limit: 10}
	if got, place := searchAll(t, bytes.NewReader(all), q); len(got) != 10 || place.Cursor != got[9].Cursor {
		t.Errorf("%d entries, %+v", len(got), place)
	}
	q.Limit, q.Since = 0, at.Add(-20*time.Second)
	if got, _ := searchAll(t, bytes.NewReader(all), q); len(got) != 21 {
		t.Errorf("%d entries since", len(got))
	}
	// journalctl begins with the cursor's own entry, which the previous search returned.
	q.Before = "i=3e8"
	if got, _ := searchAll(t, bytes.NewReader(all), q); len(got) != 20 || got[0].Text != "entry 1" {
		t.Errorf("%d entries before", len(got))
	}
	cut := search(t.Context(), bytes.NewReader(all[:len(all)-5]), host.JournalQuery{Sources: q.Sources}, ignore)
	if !errors.Is(cut, io.ErrUnexpectedEOF) {
		t.Errorf("half an entry: %v", cut)
	}
}

func TestJournalArguments(t *testing.T) {
	q := host.JournalQuery{
		Sources: []host.LogSource{haproxy.LogSource, haproxy.RequestsLogSource, wireguard.LogSource}, Level: host.LevelWarn,
		Words: []string{"--file=/etc/shadow"}, Since: at, Until: at.Add(time.Hour),
	}
	want := []string{
		"--reverse", "--since=@1770000000.123456", "--until=@1770003600.123456",
		"_SYSTEMD_UNIT=haproxy.service", "_SYSTEMD_UNIT=haproxy.service",
		"PRIORITY=0", "PRIORITY=1", "PRIORITY=2", "PRIORITY=3", "PRIORITY=4", "+",
		"_SYSTEMD_UNIT=haproxy.service", "_SYSTEMD_UNIT=haproxy.service", "_TRANSPORT=stdout", "+",
		`_SYSTEMD_SLICE=system-gateway\x2dwireguard.slice`, "PRIORITY=0", "PRIORITY=1", "PRIORITY=2", "PRIORITY=3", "PRIORITY=4", "+",
		`_SYSTEMD_SLICE=system-gateway\x2dwireguard.slice`, "_TRANSPORT=stdout", "+",
		"UNIT=haproxy.service", "UNIT=haproxy.service", "_PID=1", "PRIORITY=0", "PRIORITY=1", "PRIORITY=2", "PRIORITY=3", "PRIORITY=4",
	}
	if diff := cmp.Diff(want, searchArguments(q)); diff != "" {
		t.Error(diff)
	}
	q.Before, q.Level = "s=1;i=2", host.LevelDebug
	got := searchArguments(q)
	if !slices.Contains(got, "--cursor=s=1;i=2") ||
		slices.ContainsFunc(got, func(a string) bool { return strings.HasPrefix(a, "--since") || strings.HasPrefix(a, "PRIORITY") }) {
		t.Errorf("%q", got)
	}
	if err := (Systemd{}).SearchJournal(t.Context(), host.JournalQuery{Sources: []host.LogSource{"ssh"}}, nil); err == nil {
		t.Error("an unknown source was searched")
	}
}

// logger is a supervisor with log entries.
type logger struct {
	Supervised
	query host.JournalQuery
}

func (c *logger) SearchJournal(_ context.Context, q host.JournalQuery, sink func([]host.JournalEntry, host.JournalPlace)) error {
	c.query = q
	sink([]host.JournalEntry{{Cursor: "t=2", Text: "b"}}, host.JournalPlace{Cursor: "t=2", At: at})
	sink(nil, host.JournalPlace{Cursor: "t=1", At: at})
	if q.Limit == 13 {
		return errors.New("no luck")
	}
	return nil
}

func (c *logger) FollowJournal(ctx context.Context, _ host.JournalQuery, sink func([]host.JournalEntry)) error {
	sink([]host.JournalEntry{{Text: "c"}})
	<-ctx.Done()
	return nil
}

// A lab's journal is read from its supervisor.
func TestLabJournal(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	supervisor := new(logger)
	go func() { ended <- Serve(ctx, l, supervisor) }()
	defer func() { cancel(); <-ended }()
	s := Supervisor{Socket: socket}
	words := []string{strings.Repeat("ö", 500)}
	q := host.JournalQuery{Sources: []host.LogSource{host.APILogSource}, Level: host.LevelDebug, Words: words, Since: at}
	var texts, places []string
	err = s.SearchJournal(t.Context(), q, func(batch []host.JournalEntry, at host.JournalPlace) {
		for _, e := range batch {
			texts = append(texts, e.Text)
		}
		places = append(places, at.Cursor)
	})
	if err != nil || !slices.Equal(texts, []string{"b"}) || !slices.Equal(places, []string{"t=2", "t=1"}) {
		t.Errorf("%q, %q, %v", texts, places, err)
	}
	if diff := cmp.Diff(q, supervisor.query); diff != "" {
		t.Error(diff)
	}
	q.Limit = 13
	if err := s.SearchJournal(t.Context(), q, ignore); err == nil || err.Error() != "no luck" {
		t.Errorf("%v", err)
	}
	following, stop := context.WithCancel(t.Context())
	err = s.FollowJournal(following, q, func(batch []host.JournalEntry) {
		if batch[0].Text == "c" {
			stop()
		}
	})
	if err != nil || following.Err() == nil {
		t.Errorf("%v", err)
	}
}

func BenchmarkJournal(b *testing.B) {
	var journal bytes.Buffer
	for i := range 10000 {
		cursor := fmt.Sprintf("s=446f92d6004143ec9a74ea487bd643dc;i=%x;b=74821ba8ed41459db50108ba548c025c;m=906d58e55", i)
		writeEntry(&journal, at, cursor+";t=66061c7f4f8f9;x=866d666a77d7a7ce", "_SYSTEMD_UNIT", "unbound.service",
			"MESSAGE", "[1700000000] unbound[1:0] info: resolving host-1.example.net. A IN for 192.0.2.1, from the cache",
			"PRIORITY", "6", "_PID", "77", "_UID", "0", "_COMM", "unbound", "_TRANSPORT", "stdout", "SYSLOG_IDENTIFIER", "unbound",
			"_HOSTNAME", "gateway", "_SYSTEMD_SLICE", "system.slice")
	}
	q := host.JournalQuery{Sources: []host.LogSource{unbound.LogSource}, Level: host.LevelWarn, Words: []string{"host"}}
	for b.Loop() {
		_ = search(b.Context(), bytes.NewReader(journal.Bytes()), q, ignore)
	}
}
