package value_test

import (
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/value"
)

// parse hides the type parameter of a value type.
type parse func(string) (string, error)

func of[T interface{ String() string }, P interface {
	*T
	UnmarshalText([]byte) error
}]() parse {
	return func(s string) (string, error) {
		v, err := value.Parse[T, P](s)
		return v.String(), err
	}
}

func TestTypes(t *testing.T) {
	long := strings.Repeat("a.", 126) + "aa" // 254 characters
	for name, x := range map[string]struct {
		parse parse
		good  map[string]string
		bad   []string
	}{
		"Addr": {of[value.Addr](), map[string]string{"192.0.2.1": "192.0.2.1", "2001:DB8::1": "2001:db8::1", "::ffff:192.0.2.1": "192.0.2.1"},
			[]string{"fe80::1%eth0", "fe80::1%a\nb", "192.0.2.256", "192.0.2.1/24", "x", "1.2.3", "0x7f000001"}},
		"Prefix": {of[value.Prefix](), map[string]string{"192.0.2.9/24": "192.0.2.0/24", "2001:db8::1/32": "2001:db8::/32", "192.0.2.1": "192.0.2.1/32", "::1": "::1/128"},
			[]string{"192.0.2.0/33", "2001:db8::/129", "192.0.2.0/", "192.0.2.0/-1", "::ffff:192.0.2.0/120", "x/8", "192.0.2.0/024"}},
		"Host": {of[value.Host](), map[string]string{"A.Example.": "a.example", "192.0.2.1": "192.0.2.1", "_ntp._udp.example": "_ntp._udp.example", "localhost": "localhost"},
			[]string{"-a", "a-", "a..b", ".", "a b", "a\nb", "1.2.3", "12", strings.Repeat("a", 64), long, "ä.example", "a;b"}},
		"DomainName": {of[value.DomainName](), map[string]string{"Gateway.Example.NET": "gateway.example.net"},
			[]string{"localhost", `a".example`, "a\n.example", long, "_a.example", "192.0.2.1", "a.example/", "*.example.net"}},
		"IfName": {of[value.IfName](), map[string]string{"eth0": "eth0", "lan0.42": "lan0.42"}, []string{"eth*", "-x", "a b", "../x", strings.Repeat("a", 16), `a"b`}},
		"MAC": {of[value.MAC](), map[string]string{"AA-BB-CC-00-11-22": "aa:bb:cc:00:11:22", "aabb.cc00.1122": "aa:bb:cc:00:11:22", "AABBCC001122": "aa:bb:cc:00:11:22"},
			[]string{"aa:bb:cc:00:11", "aa:bb:cc:00:11:22:33:44", "00:00:00:00:00:00", "01:00:5e:00:00:01", "aa:bb:cc:00:11:gg"}},
		"Email": {of[value.Email](), map[string]string{"A@Example.net": "A@Example.net"}, []string{"a", "a@", "@b", "a@b c", "a@b\n", "a@b@c", "<a@b>", "a@-b", strings.Repeat("a", 65) + "@b"}},
		"URL":   {of[value.URL](), map[string]string{"https://ca.example/dir": "https://ca.example/dir"}, []string{"http://x", "https://x?y", "https://x#y", "https://a b", "file:///etc/passwd", "https://user@x/", "https://x\n"}},
		"Line":  {of[value.Line](), map[string]string{"a <b> 'c'": "a <b> 'c'"}, []string{"a\nb", "a\x00", "a\x7f", "a\u2028b", "\xff"}},
	} {
		for in, want := range x.good {
			if got, err := x.parse(in); err != nil || got != want {
				t.Errorf("%s %q: %q, %v", name, in, got, err)
			} else if again, err := x.parse(got); err != nil || again != got {
				t.Errorf("%s: the canonical form %q is not one: %q, %v", name, got, again, err)
			}
		}
		for _, in := range append(x.bad, "") {
			if got, err := x.parse(in); err == nil {
				t.Errorf("%s takes %q as %q", name, in, got)
			}
		}
		for _, in := range conftest.Corpus {
			if got, err := x.parse(in); err == nil && strings.ContainsAny(got, "\x00\r\n\x0b\x0c\u2028") {
				t.Errorf("%s lets %q through", name, in)
			}
		}
	}
}
