package wire_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

type thing struct {
	ID    string       `json:"id" readOnly:"true"`
	Host  value.Host   `json:"host" required:"true"`
	Nets  []value.Addr `json:"nets"`
	Port  *int         `json:"port" minimum:"1" maximum:"65535"`
	When  time.Time    `json:"when"`
	Word  string       `json:"word" enum:"a,b"`
	Inner struct {
		On bool `json:"on"`
	} `json:"inner"`
	Key   secret.Text `json:"key,omitzero"`
	Other *uuid.UUID  `json:"other,omitzero"`
}

func TestComplaintsNameTheFieldAndTheRemedy(t *testing.T) {
	for body, want := range map[string][2]string{
		`{"host":""}`:                              {"host", "is required"},
		`{"host":"a b"}`:                           {"host", "must be a host name or an IP address"},
		`{"host":7}`:                               {"host", "must be text"},
		`{"host":"a","nets":"x"}`:                  {"nets", "must be a list"},
		`{"host":"a","nets":["1.2.3.4","x"]}`:      {"nets", "item 2 must be an IPv4 or IPv6 address"},
		`{"host":"a","nets":[7]}`:                  {"nets", "item 1 must be text"},
		`{"host":"a","port":0}`:                    {"port", "must be between 1 and 65535"},
		`{"host":"a","port":1.5}`:                  {"port", "must be a whole number"},
		`{"host":"a","port":"1"}`:                  {"port", "must be a whole number"},
		`{"host":"a","port":99999999999999999999}`: {"port", "is out of range"},
		`{"host":"a","word":"c"}`:                  {"word", "must be one of a, b"},
		`{"host":"a","inner":{"on":1}}`:            {"inner", "on: must be true or false"},
		`{"host":"a","inner":{"off":true}}`:        {"inner", "off: is not a known field"},
		`{"host":"a","inner":[]}`:                  {"inner", "must be an object"},
		`{"host":"a","host":"b"}`:                  {"host", "is given twice"},
		`{"host":"a","HOST":"b"}`:                  {"HOST", "is not a known field"},
		`{"host":"a","key":7}`:                     {"key", "must be text"},
		`{"host":"a","other":""}`:                  {"other", "must be an id"},
		`{"host":"a","other":7}`:                   {"other", "must be an id"},
	} {
		v := thing{Word: "a"}
		_, err := wire.Decode([]byte(body), &v)
		f := fault.From(err)
		if f.Kind != fault.Invalid || f.Fields[want[0]] != want[1] {
			t.Errorf("%s: %v %v", body, err, f.Fields)
		}
	}
}

func TestDecodeOntoABase(t *testing.T) {
	seven := 7
	v := thing{ID: "mine", Word: "a", Port: &seven}
	given, err := wire.Decode([]byte(`{"id":"yours","host":"A.example.","nets":["::ffff:1.2.3.4"],"port":null}`), &v)
	if err != nil {
		t.Fatal(err)
	}
	if v.ID != "mine" || v.Host.String() != "a.example" || v.Nets[0].String() != "1.2.3.4" || v.Port != nil || !given["port"] || given["word"] {
		t.Fatalf("%+v %v", v, given)
	}
}

func TestRawIsNotAList(t *testing.T) {
	var v struct {
		Any wire.Raw `json:"any" required:"true"`
	}
	long := `{"x":"` + strings.Repeat("a", 5000) + `"}`
	if _, err := wire.Decode([]byte(`{"any":`+long+`}`), &v); err != nil || string(v.Any) != long {
		t.Fatal(err)
	}
	v.Any = nil
	if _, err := wire.Decode([]byte(`{}`), &v); err == nil {
		t.Fatal("a required value may be missing")
	}
}

func TestNilListsAreEmptyLists(t *testing.T) {
	b, err := wire.Encode(thing{Key: secret.New("canary")})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"","host":"","nets":[],"port":null,"when":"0001-01-01T00:00:00.000000Z","word":"","inner":{"on":false}}`
	if string(b) != want {
		t.Fatalf("%s", b)
	}
}

func TestSchemas(t *testing.T) {
	r := wire.NewRegistry()
	wire.Output(r, reflect.TypeFor[thing]())
	wire.Input(r, reflect.TypeFor[thing](), "Create", true, nil, map[string]any{"host": "localhost", "word": "quiet", "key": "known"})
	out, in := r.Map()["Wire_testThing"], r.Map()["Wire_testThingCreate"]
	if out.Properties["key"] != nil || out.Properties["id"] == nil {
		t.Error("the answer shows a secret, or no id")
	}
	if in.Properties["id"] != nil || in.Properties["key"] == nil || len(in.Required) != 1 || in.Required[0] != "host" {
		t.Errorf("input: %v %v", in.Properties, in.Required)
	}
	if p := in.Properties; p["word"].Default != "quiet" || p["host"].Default != nil || p["key"].Default != nil {
		t.Errorf("defaults: %v, and %v of what must be given, %v of a secret", p["word"].Default, p["host"].Default, p["key"].Default)
	}
}

func TestSecretWithoutOmitzeroIsRefused(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a secret that would appear in answers was accepted")
		}
	}()
	wire.Fields(reflect.TypeFor[struct {
		Key secret.Text `json:"key"`
	}]())
}

// Times have one form, whatever their zone and fraction, so that they sort correctly as text.
func TestTimesHaveOneForm(t *testing.T) {
	type moments struct {
		At   time.Time  `json:"at"`
		Then *time.Time `json:"then"`
		Not  *time.Time `json:"not"`
	}
	at := time.Date(2029, 2, 17, 18, 21, 6, 0, time.UTC)
	then := at.Add(12_040_000).In(time.FixedZone("", 3600))
	b, err := wire.Encode(map[string]any{"list": []moments{{At: at, Then: &then}}})
	if want := `{"list":[{"at":"2029-02-17T18:21:06.000000Z","then":"2029-02-17T18:21:06.012040Z","not":null}]}`; err != nil || string(b) != want {
		t.Errorf("%s instead of %s, %v", b, want, err)
	}
}
