package secret_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/secret"
)

type settings struct {
	Host     string                   `json:"host"`
	Password secret.Masked            `json:"password"`
	Headers  map[string]secret.Masked `json:"headers"`
}

func TestAnObjectIsPackedWithItsSecretsSealed(t *testing.T) {
	box, err := secret.NewBox(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	in := settings{Host: "mail.example.net", Password: secret.NewMasked("p4ss-canary"), Headers: map[string]secret.Masked{"X-Key": secret.NewMasked("k3y-canary")}}
	doc, err := box.Pack(in, "toys", "settings", "1")
	if err != nil || strings.Contains(string(doc), "canary") || !strings.Contains(string(doc), "mail.example.net") {
		t.Fatalf("%s %v", doc, err)
	}
	var out settings
	if err := secret.Unpack(doc, &out); err != nil {
		t.Fatal(err)
	}
	if plain, err := out.Password.Open(box, "toys", "settings", "1"); err != nil || plain != "p4ss-canary" {
		t.Errorf("%q %v", plain, err)
	}
	if _, err := out.Password.Open(box, "toys", "settings", "2"); err == nil {
		t.Error("it opens in another row")
	}
	header := out.Headers["X-Key"]
	if plain, err := header.Open(box, "toys", "settings", "1"); err != nil || plain != "k3y-canary" {
		t.Errorf("%q %v", plain, err)
	}
	again, err := box.Pack(out, "toys", "settings", "1")
	if err != nil || !bytes.Equal(again, doc) {
		t.Errorf("what was not changed is sealed again: %s", again)
	}
	for _, v := range []settings{in, out} {
		encoded, err := json.Marshal(v)
		if err != nil || strings.Contains(string(encoded)+fmt.Sprintf("%v %+v %#v", v, v, v), "canary") || strings.Count(string(encoded), secret.Mask) != 2 {
			t.Fatalf("%s %v", encoded, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"password":"***SET***"}`), &out); err != nil {
		t.Fatal(err)
	}
	if plain, err := out.Password.Open(box, "toys", "settings", "1"); err != nil || plain != "p4ss-canary" {
		t.Errorf("the mask did not keep it: %q %v", plain, err)
	}
	if encoded, err := json.Marshal(settings{}); err != nil || strings.Contains(string(encoded), secret.Mask) {
		t.Errorf("there is none: %s %v", encoded, err)
	}
	if !secret.Holds(reflect.TypeFor[settings]()) || secret.Holds(reflect.TypeFor[struct{ A secret.Text }]()) {
		t.Error("which types have secrets inside")
	}
}
