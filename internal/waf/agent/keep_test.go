package agent

import (
	"strings"
	"testing"
	"unicode/utf8"

	"edge.internal/gateway/internal/waf/engine"
)

const card = "4111111111111111"

func TestMaskFields(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"Authorization", "Basic dXNlcjpwYXNz", "[masked]"},
		{"proxy-authorization", "Bearer abc", "[masked]"},
		{"cookie", "sid=abc; theme=dark;nothing", "sid=[masked]; theme=[masked];[masked]"},
		{"set-cookie", "sid=abc; Path=/", "[masked]"},
		{"x-api-key", "abc", "[masked]"},
		{"x-csrf-token", "abc", "[masked]"},
		{"referer", "https://example.com/?token=abc&a=b", "https://example.com/?token=[masked]&a=b"},
		{"x-forwarded", "Bearer abcdef", "Bearer [masked]"},
		{"x-card", card, "[masked]"},
		{"x-any", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N", "[masked]"},
		{"x-otp", "482913", "[masked]"},
		{"referer", "https://example.com/reset/Zk3vQ9xT7?a=b", "https://example.com/reset/[masked]?a=b"},
		{"user-agent", "Mozilla/5.0 (X11; Linux x86_64) sqlmap/1.0", "Mozilla/5.0 (X11; Linux x86_64) sqlmap/1.0"},
		{"accept", "text/html,application/xhtml+xml;q=0.9", "text/html,application/xhtml+xml;q=0.9"},
	} {
		if got := maskField(engine.Field{Name: c.name, Value: c.value}); got != c.want {
			t.Errorf("%s: %s is %s", c.name, c.value, got)
		}
	}
}

func TestMaskBody(t *testing.T) {
	const form, object = "application/x-www-form-urlencoded", "application/json; charset=utf-8"
	part := func(head, content string) string {
		return "--b\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + content + "\r\n"
	}
	for _, c := range []struct{ kind, body, want string }{
		{form, "user=me&otp=482913&color=hotpink", "user=me&otp=[masked]&color=hotpink"},
		{form, "user=me&pass=hunter2&q=a%27b", "user=me&pass=[masked]&q=a%27b"},
		{form, `{"password":"hunter2"}`, `{"password":"[masked]"}`},
		{form, `{"password":"hunter2"}=`, `{"password":"[masked]"}=`},
		{form, `{"user":"a","password":"hun&ter2","q":"1' or '1'='1"}`, `{"user":"a","password":"[masked]","q":"1' or '1'=[masked]`},
		{form, `%7B%22password%22%3A%22hunter2%22%7D=&a=b`, `[masked]=&a=b`},
		{form, "a=b&pass", "a=b&pass"},
		{object, `{"user":"me","password":"hunter2","n":1}`, `{"user":"me","password":"[masked]","n":1}`},
		{object, `{"p\u0061ssword" : "hun\"ter2" }`, `{"p\u0061ssword" : "[masked]" }`},
		{object, `{"tokens":["a","b",{"c":"]"}],"x":[1,2]}`, `{"tokens":"[masked]","x":[1,2]}`},
		{object, `{"session":{"id":"a}"},"x":"y"}`, `{"session":"[masked]","x":"y"}`},
		{object, `{"key":12345,"auth":true,"secret":null}`, `{"key":"[masked]","auth":"[masked]","secret":"[masked]"}`},
		{object, `{"author":"Ada","oauth2":"x","authentication":"y"}`, `{"author":"Ada","oauth2":"[masked]","authentication":"[masked]"}`},
		{object, `{"n":` + card + `,"m":"` + card + `","o":4111111111111112}`, `{"n":"[masked]","m":"[masked]","o":4111111111111112}`},
		{object, `{"q":"1' or '1'='1","url":"/?token=abc"}`, `{"q":"1' or '1'='1","url":"/?token=[masked]"}`},
		{object, `{"password":"hunt`, `{"password":"[masked]"`},
		{object, `{"a":1,"password":`, `{"a":1,"password":`},
		{object, `{"a":"b","token":{"x":"y`, `{"a":"b","token":"[masked]"`},
		{object, `password=hunter2&a=b`, `password=[masked]&a=b`},
		{object, `"a\`, `"a\`},
		{"text/xml", `<login><password type="x">hunter2</password><name>me</name></login>`, `<login><password type="x">[masked]</password><name>me</name></login>`},
		{"text/plain", "my password: hunter2, and " + card, "my password: [masked], and [masked]"},
		{"", "a=b", "a=b"},
		{"application/octet-stream", "just text", "just text"},
		{"multipart/form-data; boundary=b", part(`name="user"`, "me") + part(`name="password"`, "hunter2") + part(`name="f"; filename="a.txt"`, "token=abc") + "--b--\r\n",
			part(`name="user"`, "me") + part(`name="password"`, "[masked]") + part(`name="f"; filename="a.txt"`, "token=[masked]") + "--b--\r\n"},
		{"multipart/form-data", `Content-Disposition: form-data; name="password"`, `Content-Disposition: form-data; name="password"`},
	} {
		if got, ok := maskBody(c.kind, c.body, false); !ok || got != c.want {
			t.Errorf("%s: %q is %q, not %q", c.kind, c.body, got, c.want)
		}
	}
	for _, body := range []string{"\x00\x01", "\xff\xfe", "PK\x03\x04"} {
		if got, ok := maskBody("application/octet-stream", body, false); ok {
			t.Errorf("%q is kept as %q", body, got)
		}
	}
	if got, ok := maskBody("text/plain", "gr\xc3", true); !ok || got != "gr" {
		t.Errorf("%q, %v", got, ok)
	}
}

func TestKeptRequestsAreBounded(t *testing.T) {
	big := strings.Repeat("ä", 1<<20)
	k := keep(&engine.Request{
		Method: "POST" + big, URI: "/" + big, Version: "HTTP/1.1", Complete: true, Body: []byte(big),
		Header: []engine.Field{{Name: "content-type", Value: "text/plain"}, {Name: "x", Value: "1"}, {Name: "y", Value: big}, {Name: "z", Value: "2"}},
	})
	if !k.cut || len(k.body) > keptBody || len(k.uri) > 2*keptURI || len(k.method) > recordedName || len(k.header) > 2*keptHeader || !utf8.Valid(k.body) {
		t.Errorf("%d, %d, %d, %d, %v", len(k.body), len(k.uri), len(k.method), len(k.header), k.cut)
	}
	if s := recordURI("/" + big); len(s) > recordedURI || !utf8.ValidString(s) {
		t.Errorf("%d bytes", len(s))
	}
	k = keep(&engine.Request{Method: "GET", URI: "/\x00\xff", Version: "HTTP/1.1", Complete: true, Header: []engine.Field{{Name: "x", Value: "a\x00\xffb"}}, Body: []byte{0, 1}})
	if strings.Contains(k.uri+string(k.header), "\x00") || strings.Contains(string(k.header), `\u0000`) || !utf8.ValidString(k.uri) || len(k.body) != 0 || !k.cut || !k.masked {
		t.Errorf("%q, %s, %q", k.uri, k.header, k.body)
	}
	k = keep(&engine.Request{Method: "GET", URI: "/a?b=c", Version: "HTTP/1.1", Complete: true, Header: []engine.Field{{Name: "host", Value: "a"}}})
	if k.cut || k.masked || string(k.header) != `[{"name":"host","value":"a"}]` {
		t.Errorf("%+v", k)
	}
}
