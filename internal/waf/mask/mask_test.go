package mask

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const card = "4111111111111111"

func TestURI(t *testing.T) {
	for uri, want := range map[string]string{
		"/":                                      "/",
		"/a?q=green+tea&page=2":                  "/a?q=green+tea&page=2",
		"/a?q=1'+or+'1'='1":                      "/a?q=1'+or+'1'='1",
		"/a?password=hunter2&x=1":                "/a?password=[masked]&x=1",
		"/a?userPassword=hunter2":                "/a?userPassword=[masked]",
		"/a?p%61ssword=hunter2":                  "/a?p%61ssword=[masked]",
		"/a?API_KEY=abc&token=&x":                "/a?API_KEY=[masked]&token=&x",
		"/a?user[pwd]=abc&b[session]=":           "/a?user[pwd]=[masked]&b[session]=",
		"/a?to=https%3A%2F%2Fb%2F%3Ftoken%3Dabc": "/a?to=[masked]",
		"/a?n=" + card:                           "/a?n=[masked]",
		"/a?n=4111-1111-1111-1111&m=12":          "/a?n=[masked]&m=12",
		"/a?n=4111+1111+1111+1111":               "/a?n=[masked]",
		"/a?n=4111111111111112":                  "/a?n=4111111111111112",
		"/a;jsessionid=ABC123/b":                 "/a;jsessionid=[masked]",
		"/pay/" + card + "/x":                    "/pay/[masked]/x",
		"http://user:hunter2@example.com/a":      "http://user:[masked]@example.com/a",
		`/a?{"password":"hunter2"}`:              `/a?{"password":"[masked]"}`,
		`/a?{"token":"hunter2","q":"a='b"}`:      `/a?{"token":"[masked]","q":"a=[masked]`,
		`/a?{"token":"hunter2"}=`:                `/a?{"token":"[masked]"}=`,
		`/a?{"token":"hunt&er2"}&b=c`:            `/a?{"token":"[masked]"}&b=c`,
		`/a?%7B%22token%22%3A%22hunter2%22%7D=1`: `/a?[masked]=[masked]`,
	} {
		if got := URI(uri); got != want {
			t.Errorf("%s: %s, not %s", uri, got, want)
		}
	}
}

// FuzzJSON: a text is masked to one that is as good, and a secret of a known name is not in it.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":"b"}`, `{"a":["x",{"y":1}]}`, `"`, `{"key":`, `{"key"`, `[1,2,`, `\"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		masked := JSON(s)
		if json.Valid([]byte(s)) && !json.Valid([]byte(masked)) {
			t.Errorf("%q became %q", s, masked)
		}
		quoted, err := json.Marshal(map[string]any{"token": "zq9" + s, "list": []any{map[string]string{"my_secret": "zq9"}}})
		if err != nil {
			return
		}
		for n := range slices.Values([]int{len(quoted), len(quoted) / 2, len(quoted) - 1}) {
			if masked := JSON(string(quoted[:n])); !strings.Contains(s, "zq9") && strings.Contains(masked, "zq9") {
				t.Errorf("%q became %q", quoted[:n], masked)
			}
		}
	})
}
