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
		"/a?otp=482913&next=/b":                  "/a?otp=[masked]&next=/b",
		"/a?smsOtp=482913&otp_code=1&x=OTP":      "/a?smsOtp=[masked]&otp_code=[masked]&x=OTP",
		"/a?user[totp]=1&mfa-code=2&2fa=3":       "/a?user[totp]=[masked]&mfa-code=[masked]&2fa=[masked]",
		"/a?pin=1234&cardPin=1&verificationCode=482913&one_time_code=4": "/a?pin=[masked]&cardPin=[masked]&verificationCode=[masked]&one_time_code=[masked]",
		"/a?x=" + signed + "&y=1":                          "/a?x=[masked]&y=1",
		"/a/" + signed + "/b":                              "/a/[masked]/b",
		"/reset/Zk3vQ9xT7":                                 "/reset/[masked]",
		"/password-reset/482913/done":                      "/password-reset/[masked]/done",
		"/invite/6f0d1c2e-aaaa-4bbb-8ccc-0123456789ab?a=b": "/invite/[masked]?a=b",
		"/u/7/confirm_email/kqzvxjwmplorthgfdbnyas":        "/u/7/confirm_email/[masked]",
		"/s/dGhpcyBpcyBhIHRva2VuIQ3x":                      "/s/[masked]",
		"/x/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b":      "/x/[masked]",
		"https://a.example/share/Ab3dEf9hIj":               "https://a.example/share/[masked]",
	} {
		if got := URI(uri); got != want {
			t.Errorf("%s: %s, not %s", uri, got, want)
		}
	}
}

// signed is a meaningless token.
const signed = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

// What is not a secret stays readable: names that contain a short word by chance, words after a word that announces a secret, numbers,
// slugs, names of files and of operations, and UUIDs.
func TestWhatIsNoSecretStays(t *testing.T) {
	for _, uri := range []string{
		"/a?hotpink=1&shopping=2&opinion=3&titan=4&spin=5&robot_position=6&zip_code=12345&country_code=DE&code=404&tangent=7&captain=8",
		"/reset/password", "/invite/friends", "/token/refresh", "/reset/how-to-reset-your-password-2024", "/confirm/order-2024", "/invite/2", "/share/photos",
		"/articles/2024/11/18/the-long-way-to-a-good-title", "/items/1234567890123456789012", "/order/2024-000123-000456-000789",
		"/api/v2/getUserAccountSettingsForAdministrators", "/assets/main.3f2a9c1b7d.chunk.js", "/img/IMG_20240101_123456.jpg",
		"/items/6f0d1c2e-aaaa-4bbb-8ccc-0123456789ab", "/wiki/Internationalization_and_localization", "/a?cursor=eyJpZCI6NX0", "/..%2f..%2f..%2fetc%2fpasswd",
		"/search/union%20select%20password%20from%20users", "/cgi-bin/.%2e/.%2e/.%2e/.%2e/bin/sh",
	} {
		if got := URI(uri); got != uri {
			t.Errorf("%s: %s", uri, got)
		}
	}
	for _, text := range []string{"the opinion: good", "span: 5", "eyJ is how they begin", "version 1.2.3", "a.b.c"} {
		if got := Text(text); got != text {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestTokensInTexts(t *testing.T) {
	for text, want := range map[string]string{
		signed:                       Hidden,
		"x-any " + signed + ", more": "x-any " + Hidden + ", more",
		signed[:40]:                  Hidden,
		`{"a":"` + signed + `"}`:     `{"a":"` + Hidden + `"}`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := JSON(`{"value":"` + signed + `","otp":"482913","n":1}`); got != `{"value":"[masked]","otp":"[masked]","n":1}` {
		t.Error(got)
	}
}

// FuzzJSON checks that a masked text is as valid as the original, and has no secret of a known name in it.
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
