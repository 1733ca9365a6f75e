package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
)

func logMachine(t *testing.T) (*Files, string) {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, logPath(freeradius.Logins))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	return at(root), path
}

func logPath(l host.Log) string { return logSpec(l).Path }

func logSpec(l host.Log) host.LogSpec {
	spec, _ := l.Spec()
	return spec
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestReadLog(t *testing.T) {
	s, path := logMachine(t)
	want := func(most int64, text string) {
		t.Helper()
		if b, err := s.ReadLog(freeradius.Logins, most); err != nil || string(b) != text {
			t.Fatalf("%q instead of %q, %v", b, text, err)
		}
	}
	want(100, "")
	write(t, path, "one\ntwo\nthr")
	want(100, "one\ntwo\n")
	want(9, "two\n")
	want(2, "")
	if _, err := s.ReadLog("other", 1); err == nil {
		t.Fatal("a log that is not in the list was read")
	}
}

func TestTrimLog(t *testing.T) {
	s, path := logMachine(t)
	if err := s.TrimLog(freeradius.Logins); err != nil {
		t.Fatal(err)
	}
	limit := int(logSpec(freeradius.Logins).Limit)
	line := strings.Repeat("x", 1023) + "\n"
	write(t, path, strings.Repeat(line, limit/1024))
	if err := s.TrimLog(freeradius.Logins); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(limit) {
		t.Fatalf("a log that is not too long was trimmed: %v", err)
	}
	// The daemon keeps it open.
	daemon, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	if _, err := daemon.WriteString("before\n"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has nothing to do
		if err := s.TrimLog(freeradius.Logins); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := daemon.WriteString("after\n"); err != nil {
		t.Fatal(err)
	}
	b, err := s.ReadLog(freeradius.Logins, 1100)
	if err != nil || string(b) != line+"before\nafter\n" {
		t.Fatalf("%q, %v", b, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != int64(len("after\n")) {
		t.Fatalf("%d bytes, %v", info.Size(), err)
	}
}

// The folder belongs to the daemon, which must not make the gateway read or write other files.
func TestLinkedLogsAreNotFollowed(t *testing.T) {
	s, path := logMachine(t)
	victim := filepath.Join(t.TempDir(), "victim")
	write(t, victim, "secret\n")
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	if b, err := s.ReadLog(freeradius.Logins, 100); err == nil {
		t.Errorf("read %q", b)
	}
	if err := s.TrimLog(freeradius.Logins); err == nil {
		t.Error("trimmed")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.Repeat("line\n", 2<<20))
	if err := os.Symlink(victim, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := s.TrimLog(freeradius.Logins); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "secret\n" {
		t.Fatalf("the victim has %q, %v", b, err)
	}
}

func TestReadLogBefore(t *testing.T) {
	s, path := logMachine(t)
	read := func(at host.LogPlace, most int64) host.LogPiece {
		t.Helper()
		p, err := s.ReadLogBefore(freeradius.Logins, at, most)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := read(host.LogPlace{}, 100); len(p.Lines) != 0 || p.More {
		t.Fatalf("%+v", p)
	}
	write(t, path+".1", "one\ntwo\n")
	write(t, path, "three\nfour\n"+strings.Repeat("x", 50)+"\nfive\nsi")
	var got []string
	at, pieces := host.LogPlace{}, 0
	for more := true; more; pieces++ {
		p := read(at, 13)
		if len(p.Lines) > 0 {
			got = append(got, string(p.Lines))
		}
		at, more = p.From, p.More
		if pieces > 20 {
			t.Fatal("it does not end")
		}
	}
	// The line that does not fit and the one without an end are left out.
	if want := "five\n|three\nfour\n|one\ntwo\n"; strings.Join(got, "|") != want {
		t.Fatalf("%q", got)
	}
	// When the log was trimmed, reading continues in .1.
	whole := read(host.LogPlace{}, 1000)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if p := read(whole.To, 1000); string(p.Lines) != "one\ntwo\n" || p.More {
		t.Fatalf("%+v", p)
	}
	if p := read(host.LogPlace{File: 1, Offset: 5}, 1000); len(p.Lines) != 0 || p.More {
		t.Fatalf("a file that is gone has %q", p.Lines)
	}
	for _, most := range []int64{0, -1, 1 << 40} {
		if _, err := s.ReadLogBefore(freeradius.Logins, host.LogPlace{}, most); err == nil {
			t.Errorf("%d bytes were read", most)
		}
	}
	if err := s.TrimLog(squid.AccessLog); err == nil {
		t.Error("another program's log was trimmed")
	}
}
