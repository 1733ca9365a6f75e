//go:build long

package appliance

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/test/node"
)

func TestMain(m *testing.M) {
	node.SearchesJournal()
	os.Exit(m.Run())
}

// speaks is a unit that prints a file, and runs until the journal has it: of a unit that has ended, the journal knows less.
func speaks(t *testing.T, n *node.Node, unit string, text []byte) {
	t.Helper()
	if err := n.Write("/root/"+unit+".txt", text); err != nil {
		t.Fatal(err)
	}
	service := fmt.Sprintf("[Service]\nType=oneshot\nLogRateLimitIntervalSec=0\nExecStart=/bin/sh /root/speak.sh /root/%s.txt\n", unit)
	if err := n.Write("/etc/systemd/system/"+unit+".service", []byte(service)); err != nil {
		t.Fatal(err)
	}
}

// speak lets the shell itself print a file.
const speak = `while IFS= read -r line; do printf '%s\n' "$line"; done < "$1"
journalctl --sync
`

// TestRealJournal reads the journal of a real journald with the code of gateway-helper: hostile, huge and binary texts, other units,
// levels, pages and new entries.
func TestRealJournal(t *testing.T) {
	n := boot(t, release())
	if err := n.Write("/root/speak.sh", []byte(speak)); err != nil {
		t.Fatal(err)
	}
	request := `192.0.2.7:4711 [01/Mar/2026:12:00:01.000] gateway_https~ web/one 0/0/1/2/3 200 512 - - ---- 1/1/0/0/0 0/0 "GET /a?token=hidden HTTP/1.1" - 01980000-0000-7000-8000-000000000001 - -`
	hostile := "<img src=x onerror=alert(1)> \x1b[2J \xff\xfe end"
	speaks(t, n, "haproxy", []byte("[WARNING]  (7) : careful\n"+request+"\n"+hostile+"\n"+strings.Repeat("long ", 60_000)+"\nlast\n"))
	speaks(t, n, "ssh-like", []byte("words of another\n"))
	var many bytes.Buffer
	for i := range 5000 {
		fmt.Fprintf(&many, "[1700000000] unbound[1:0] info: query %d\n", i)
	}
	many.WriteString("[1700000000] unbound[1:0] error: broken\n")
	speaks(t, n, "unbound", many.Bytes())
	speaks(t, n, "gateway-wireguard@", []byte("tunnel speaks\n"))
	if err := n.BringAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	// An entry of megabytes with invalid UTF-8 is sent by the journal's own protocol.
	for unit, run := range map[string]string{"squid": node.SpeakAtOnce(8 << 20), "chrony": "/bin/false"} {
		if err := n.Write("/etc/systemd/system/"+unit+".service", []byte("[Service]\nType=oneshot\nExecStart="+run+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := n.Sh(t.Context(), "systemctl daemon-reload; for u in unbound ssh-like squid gateway-wireguard@wg0 haproxy; do systemctl start $u || echo \"$u does not start\"; done; systemctl start chrony || true; journalctl --sync"); err != nil || strings.Contains(out, "does not start") {
		t.Fatal(out, err)
	}
	find := func(q host.JournalQuery) node.Found {
		t.Helper()
		f, err := n.SearchJournal(t.Context(), "search", q)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	texts := func(f node.Found) (list []string) {
		for _, e := range f.Entries {
			list = append(list, e.Text)
		}
		return list
	}
	own := func(q host.JournalQuery) (list []string) { // what the unit itself has printed
		for _, e := range find(q).Entries {
			if !slices.ContainsFunc(e.Fields, func(f host.JournalField) bool { return f.Name == "pid" && f.Value == "1" }) {
				list = append(list, e.Text)
			}
		}
		return list
	}

	said := own(host.JournalQuery{Sources: []host.LogSource{haproxy.LogSource}, Level: host.LevelDebug})
	if len(said) < 5 || said[0] != "last" || said[len(said)-1] != "[WARNING]  (7) : careful" || said[len(said)-2] != "<img src=x onerror=alert(1)> \ufffd[2J \ufffd\ufffd end" {
		t.Errorf("the proxy said %d lines: %.200q", len(said), said)
	}
	for _, text := range said {
		if len(text) > host.LongestText {
			t.Errorf("%d bytes", len(text))
		}
	}
	f := find(host.JournalQuery{Sources: []host.LogSource{haproxy.RequestsLogSource}, Level: host.LevelDebug, Words: []string{"GET /A"}})
	if len(f.Entries) != 1 || strings.Contains(f.Entries[0].Text, "hidden") {
		t.Errorf("%q", texts(f))
	}
	if f := find(host.JournalQuery{Sources: []host.LogSource{haproxy.RequestsLogSource}, Level: host.LevelDebug, Words: []string{"hidden"}}); len(f.Entries) != 0 {
		t.Errorf("%q", texts(f))
	}
	if f := find(host.JournalQuery{Sources: []host.LogSource{haproxy.LogSource, unbound.LogSource, squid.LogSource}, Level: host.LevelDebug, Words: []string{"of another"}}); len(f.Entries) != 0 {
		t.Errorf("another unit is heard: %q", texts(f))
	}
	if said := own(host.JournalQuery{Sources: []host.LogSource{wireguard.LogSource}, Level: host.LevelDebug}); !slices.Equal(said, []string{"tunnel speaks"}) {
		t.Errorf("tunnels: %q", said)
	}
	f = find(host.JournalQuery{Sources: []host.LogSource{chrony.LogSource}, Level: host.LevelWarn})
	if len(f.Entries) == 0 || !strings.Contains(strings.Join(texts(f), "\n"), "Failed") {
		t.Errorf("what systemd says about a unit that fails: %q", texts(f))
	}
	f = find(host.JournalQuery{Sources: []host.LogSource{squid.LogSource}, Level: host.LevelError})
	if len(f.Entries) != 1 || !f.Entries[0].Cut || !strings.HasPrefix(f.Entries[0].Text, "\ufffdbig\ufffdbig") || f.Peak > 50<<20 {
		t.Errorf("%d entries, peak of %d MiB", len(f.Entries), f.Peak>>20)
	}
	if f := find(host.JournalQuery{Sources: []host.LogSource{unbound.LogSource}, Level: host.LevelWarn}); len(f.Entries) != 1 || !strings.HasSuffix(f.Entries[0].Text, "error: broken") {
		t.Errorf("errors: %q", texts(f))
	}

	// Pages return the same as a single query.
	q := host.JournalQuery{Sources: []host.LogSource{unbound.LogSource, haproxy.LogSource}, Level: host.LevelDebug}
	whole := texts(find(q))
	var paged []string
	for q.Limit = 1111; ; {
		f := find(q)
		paged = append(paged, texts(f)...)
		if len(f.Entries) < q.Limit {
			break
		}
		q.Before = f.Place.Cursor
	}
	if len(whole) < 5000 || !slices.Equal(whole, paged) {
		t.Errorf("%d entries at once, %d by pages", len(whole), len(paged))
	}
	all := find(host.JournalQuery{Sources: q.Sources, Level: host.LevelDebug}).Entries
	middle := all[len(all)/2].At
	later := find(host.JournalQuery{Sources: q.Sources, Level: host.LevelDebug, Since: middle}).Entries
	earlier := find(host.JournalQuery{Sources: q.Sources, Level: host.LevelDebug, Until: middle}).Entries
	if len(later)+len(earlier) < len(all)+1 || later[len(later)-1].At.Before(middle) || earlier[0].At.After(middle) {
		t.Errorf("%d and %d of %d entries", len(later), len(earlier), len(all))
	}

	// New entries are streamed.
	heard := make(chan node.Found, 1)
	go func() {
		f, err := n.SearchJournal(t.Context(), "follow", host.JournalQuery{Sources: []host.LogSource{wireguard.LogSource}, Level: host.LevelDebug, Words: []string{"speaks"}, Since: time.Now(), Limit: 2})
		if err != nil {
			f.Failure = err.Error()
		}
		heard <- f
	}()
	var found node.Found
	waittest.Until(t, "what is said is heard", func() bool {
		if _, err := n.Sh(t.Context(), "systemctl start gateway-wireguard@wg0"); err != nil {
			return false
		}
		select {
		case found = <-heard:
			return true
		default:
			return false
		}
	})
	if said := slices.Compact(texts(found)); len(found.Entries) < 2 || !slices.Equal(said, []string{"tunnel speaks"}) {
		t.Errorf("%+v", found)
	}
}
