package document_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"reflect"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/license/document"
)

func pair(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func ten() *int { n := 10; return &n }

func example() document.License {
	return document.License{
		ID: "L-1", Subject: "Müller & Söhne GmbH", Plan: "Standard", Limits: document.Limits{Domains: ten()}, Features: []string{"waf", "cluster"},
		NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC),
	}
}

func sign(t *testing.T, l document.License, key ed25519.PrivateKey) document.Sealed {
	t.Helper()
	s, err := document.Sign(l, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatIsSignedIsRead(t *testing.T) {
	public, private := pair(t)
	text := sign(t, example(), private).Text()
	for _, line := range strings.Split(text, "\n") {
		if len(line) > 64 {
			t.Errorf("a line of %d characters", len(line))
		}
	}
	// What mail programs and editors do to a text.
	for name, changed := range map[string]string{
		"as it is":         text,
		"Windows":          "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n"),
		"one line":         strings.ReplaceAll(text, "\n", " "),
		"no line ends":     strings.ReplaceAll(text, "\n", ""),
		"indented":         strings.ReplaceAll(text, "\n", "\n\t  "),
		"broken elsewhere": strings.ReplaceAll(text, "A", "\nA\u00a0"),
		"space around":     "\n\n  " + text + "\n \n",
		"header broken":    strings.Replace(text, "GATEWAY LICENSE", "GATEWAY\n LICENSE", 1),
	} {
		s, err := document.Parse(changed)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if l, err := s.Verify(public); err != nil || !reflect.DeepEqual(l, example()) {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
		if s.Text() != text {
			t.Errorf("%s: it is not the same text again", name)
		}
	}
}

func TestWhatIsNoLicense(t *testing.T) {
	_, private := pair(t)
	text := sign(t, example(), private).Text()
	inside := strings.TrimSuffix(strings.TrimPrefix(text, document.Begin+"\n"), document.End+"\n")
	for name, x := range map[string]struct{ text, why string }{
		"nothing":            {"", "begin with"},
		"something else":     {"-----BEGIN CERTIFICATE-----\n" + inside + "-----END CERTIFICATE-----\n", "begin with"},
		"text before":        {"Dear customer,\n" + text, "begin with"},
		"trailing garbage":   {text + "x", "end with"},
		"two of them":        {text + text, "damaged"},
		"no end":             {document.Begin + "\n" + inside, "end with"},
		"no content":         {document.Begin + document.End, "damaged"},
		"less than a seal":   {document.Begin + base64.StdEncoding.EncodeToString(make([]byte, 64)) + document.End, "damaged"},
		"a missing line":     {document.Begin + "\n" + inside[:64] + document.End, "damaged"},
		"a quoted line":      {document.Begin + "\n> " + inside + document.End, "damaged"},
		"garbage inside":     {document.Begin + "\n" + strings.TrimSpace(inside) + "!" + document.End, "damaged"},
		"not a text":         {document.Begin + "\xff\x00" + document.End, "damaged"},
		"more than any has":  {strings.Repeat(" ", document.MaxText) + text, "more than"},
		"a megabyte of them": {strings.Repeat(text, 4000), "more than"},
	} {
		if _, err := document.Parse(x.text); err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No bit of a license can be changed.
func TestNoBitCanBeChanged(t *testing.T) {
	public, private := pair(t)
	text := sign(t, example(), private).Text()
	raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(text, document.Begin), document.End+"\n"), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	armour := func(b []byte) string {
		return document.Begin + base64.StdEncoding.EncodeToString(b) + document.End
	}
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		s, err := document.Parse(armour(raw))
		if err != nil {
			t.Fatal(err)
		}
		if l, err := s.Verify(public); err != document.ErrSignature {
			t.Fatalf("bit %d: %+v, %v", bit, l, err)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for name, b := range map[string][]byte{"shorter": raw[:len(raw)-1], "longer": append(raw[:len(raw):len(raw)], ' ')} {
		s, err := document.Parse(armour(b))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Verify(public); err != document.ErrSignature {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, _ := pair(t)
	s, err := document.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(other); err != document.ErrSignature {
		t.Errorf("by another key: %v", err)
	}
	// A signature of the same bytes for another purpose is not valid for a license.
	plain := append(ed25519.Sign(private, raw[64:]), raw[64:]...)
	if s, err = document.Parse(armour(plain)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(public); err != document.ErrSignature {
		t.Errorf("without its purpose: %v", err)
	}
}

// What the issuer has signed is still read with care.
func TestSignedContents(t *testing.T) {
	public, private := pair(t)
	valid := `"id":"L-1","subject":"s","plan":"p","limits":{},"features":[],"not_before":"2026-01-01T00:00:00Z","not_after":"2026-12-31T00:00:00Z"`
	for content, why := range map[string]string{
		`{"version":1,` + valid + `}`:                "",
		`{"version":1,"colour":"red",` + valid + `}`: "", // from a later version
		`{"version":2,` + valid + `}`:                "version 2",
		`{` + valid + `}`:                            "version 0",
		`{"version":1,` + valid + `} {}`:             "cannot be read",
		`{"version":1,"id":"L-2",` + valid + `}`:     "cannot be read",
		`{"version":1}`:                              "its id",
		`[]`:                                         "cannot be read",
		`x`:                                          "cannot be read",
	} {
		b := append(ed25519.Sign(private, []byte("gateway-license-v1\n"+content)), content...)
		s, err := document.Parse(document.Begin + base64.StdEncoding.EncodeToString(b) + document.End)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Verify(public); (why == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestWhatIsNotSigned(t *testing.T) {
	_, private := pair(t)
	negative := -1
	for name, change := range map[string]func(*document.License){
		"no id":             func(l *document.License) { l.ID = "" },
		"strange id":        func(l *document.License) { l.ID = "a b" },
		"no subject":        func(l *document.License) { l.Subject = "" },
		"blank subject":     func(l *document.License) { l.Subject = " " },
		"line in a subject": func(l *document.License) { l.Subject = "a\nb" },
		"long subject":      func(l *document.License) { l.Subject = strings.Repeat("ä", 201) },
		"no plan":           func(l *document.License) { l.Plan = "" },
		"broken text":       func(l *document.License) { l.Plan = "a\xff" },
		"no end":            func(l *document.License) { l.NotAfter = time.Time{} },
		"no beginning":      func(l *document.License) { l.NotBefore = time.Time{} },
		"end before it":     func(l *document.License) { l.NotAfter = l.NotBefore.Add(-time.Second) },
		"negative":          func(l *document.License) { l.Limits.Nodes = &negative },
		"strange feature":   func(l *document.License) { l.Features = []string{"WAF"} },
		"twice":             func(l *document.License) { l.Features = []string{"waf", "waf"} },
		"many features":     func(l *document.License) { l.Features = make([]string, 65) },
	} {
		l := example()
		change(&l)
		if _, err := document.Sign(l, private); err == nil {
			t.Errorf("%s is signed", name)
		}
	}
}

func TestPublicKeys(t *testing.T) {
	public, _ := pair(t)
	if again, err := document.ParsePublicKey(document.FormatPublicKey(public) + "\n"); err != nil || !again.Equal(public) {
		t.Error(again, err)
	}
	for _, text := range []string{"", "x", base64.StdEncoding.EncodeToString(make([]byte, 31)), base64.StdEncoding.EncodeToString(make([]byte, 33))} {
		if _, err := document.ParsePublicKey(text); err == nil {
			t.Errorf("%q is a public key", text)
		}
	}
}
