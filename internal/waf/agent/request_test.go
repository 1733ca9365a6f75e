package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe/spoetest"
)

func TestFields(t *testing.T) {
	got, ok := fields(spoetest.Block("host", "a", "x-one", "1", "x-one", "", "x-long", strings.Repeat("x", 5000), "x-bytes", "\x00\xff: \r\n"))
	want := []engine.Field{{Name: "host", Value: "a"}, {Name: "x-one", Value: "1"}, {Name: "x-one"}, {Name: "x-long", Value: strings.Repeat("x", 5000)}, {Name: "x-bytes", Value: "\x00\xff: \r\n"}}
	if !ok || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, ok)
	}
	if got, ok := fields(spoetest.Block()); !ok || len(got) != 0 {
		t.Errorf("no header: %q, %v", got, ok)
	}
	whole := spoetest.Block("host", "a")
	for name, b := range map[string][]byte{
		"nothing": nil, "no end": whole[:len(whole)-2], "half an end": whole[:len(whole)-1], "more": append(slices.Clone(whole), 0),
		"half a name": whole[:2], "no value": whole[:5], "a value without a name": {0, 1, 'a', 0, 0}, "a long name": {200, 'a'},
		"an endless length": {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
	} {
		if got, ok := fields(b); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// FuzzFields checks that an accepted block is the same when its fields are written again.
func FuzzFields(f *testing.F) {
	f.Add(spoetest.Block("host", "a", "x", ""))
	f.Add([]byte{0, 1, 0, 0})
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, ok := fields(b)
		if !ok {
			return
		}
		var flat []string
		for _, field := range list {
			if field.Name == "" {
				t.Error("a field without a name")
			}
			flat = append(flat, field.Name, field.Value)
		}
		again, ok := fields(spoetest.Block(flat...))
		if !ok || !slices.Equal(again, list) {
			t.Errorf("%q, %v", again, ok)
		}
	})
}

func TestReadingFieldsAllocatesTwice(t *testing.T) {
	block := spoetest.Block("host", "a", "accept", "text/html", "user-agent", "x", "cookie", "a=b")
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := fields(block); !ok {
			t.Fatal("refused")
		}
	}); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func TestClient(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "192.0.2.1", nil, "192.0.2.1"},
		{"a stranger's word does not count", "192.0.2.1", []string{"10.0.0.1, 198.51.100.7"}, "192.0.2.1"},
		{"a proxy that says nothing", "10.0.0.1", nil, "10.0.0.1"},
		{"one proxy", "10.0.0.1", []string{"198.51.100.7"}, "198.51.100.7"},
		{"what the client claims does not count", "10.0.0.1", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		{"two proxies", "10.0.0.1", []string{"203.0.113.9,198.51.100.7 ,\t10.0.0.2"}, "198.51.100.7"},
		{"two lines", "10.0.0.1", []string{"203.0.113.9", "198.51.100.7", "10.0.0.2"}, "198.51.100.7"},
		{"proxies only", "10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"what lies left of nonsense does not count", "10.0.0.1", []string{"203.0.113.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"nonsense next to the proxy", "10.0.0.1", []string{"203.0.113.9, unknown"}, "10.0.0.1"},
		{"an empty entry", "10.0.0.1", []string{"203.0.113.9,"}, "10.0.0.1"},
		{"an empty line", "10.0.0.1", []string{"203.0.113.9", ""}, "10.0.0.1"},
		{"version 6", "2001:db8::1", []string{"2001:db9::7, 2001:db8::2"}, "2001:db9::7"},
		{"with ports", "10.0.0.1", []string{"[2001:db9::7]:443, 10.0.0.2:80"}, "2001:db9::7"},
		{"version 4 in version 6", "10.0.0.1", []string{"::ffff:198.51.100.7, ::ffff:10.0.0.2"}, "198.51.100.7"},
		{"an address with a zone", "10.0.0.1", []string{"fe80::1%eth0"}, "10.0.0.1"},
		{"no address", "10.0.0.1", []string{"198.51.100.7/32"}, "10.0.0.1"},
	} {
		header := []engine.Field{{Name: "host", Value: "198.51.100.99"}}
		for _, f := range c.forwarded {
			header = append(header, engine.Field{Name: "x-forwarded-for", Value: f}, engine.Field{Name: "x-real-ip", Value: "203.0.113.8"})
		}
		if got := client(netip.MustParseAddr(c.peer), header, trusted); got.String() != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
	}
}

func TestVersionsAndMethods(t *testing.T) {
	for _, m := range []string{"GET", "POST", "HEAD", "PUT", "OPTIONS", "PROPFIND", ""} {
		if got := method([]byte(m)); got != m {
			t.Errorf("%s is %s", m, got)
		}
	}
	for _, v := range []string{"1.0", "1.1", "2.0", "3.0"} {
		if got := version([]byte(v)); got != "HTTP/"+v {
			t.Errorf("%s is %s", v, got)
		}
	}
}
