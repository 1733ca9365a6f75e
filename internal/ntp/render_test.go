package ntp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/wire"
	"edge.internal/gateway/internal/ntp"
)

// chronyd has the real daemon check a drop-in.
func chronyd(t testing.TB, file []byte) error {
	t.Helper()
	machine, err := machine.New(machine.Options{Units: units.None{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = machine.Run(t.Context(), chrony.Check, host.Input{Staged: []host.File{{Place: chrony.DropIn, Content: file}}})
	return err
}

func TestRender(t *testing.T) {
	conftest.Golden[ntp.Config]{
		Render: ntp.Render,
		Accept: func(t testing.TB, files []host.File) {
			if err := chronyd(t, files[1].Content); err != nil {
				t.Errorf("chronyd refuses it: %v", err)
			}
		},
	}.Check(t)
}

func TestCheckerRefuses(t *testing.T) {
	if err := chronyd(t, []byte("pool a.example surprise\n")); err == nil {
		t.Fatal("chronyd takes anything")
	}
}

// directives splits a chrony file like chronyd.
func directives(file []byte) [][]string {
	var list [][]string
	for line := range bytes.Lines(file) {
		words := strings.Fields(string(line))
		if len(words) > 0 && !strings.ContainsAny(words[0][:1], "!;#%") {
			list = append(list, words)
		}
	}
	return list
}

func daemon(t testing.TB, file []byte) {
	t.Helper()
	if err := chronyd(t, file); err != nil {
		t.Errorf("chronyd refuses\n%s: %v", file, err)
	}
}

func dropInOf(c ntp.Config) ([]byte, error) {
	files, err := ntp.Render(c)
	if err != nil {
		return nil, err
	}
	return files[1].Content, nil
}

func TestHostileAddress(t *testing.T) {
	conftest.Oracle[ntp.Pool]{
		Place:  chrony.DropIn,
		Benign: "ntp.example.net", Parse: directives, Daemon: daemon,
		Decode: func(text string) (ntp.Pool, string, error) {
			pool := ntp.Pool{Kind: "server", MinPoll: 6, MaxPoll: 10}
			err := decode(&pool, "address", text)
			return pool, pool.Address.String(), err
		},
		Render: func(p ntp.Pool) ([]byte, error) { return dropInOf(ntp.Config{Pools: []ntp.Pool{p}}) },
	}.Check(t)
}

func hostileSetting(t *testing.T, field, benign string, canonical func(ntp.Settings) string) {
	conftest.Oracle[ntp.Settings]{
		Place:  chrony.DropIn,
		Benign: benign, Parse: directives, Daemon: daemon,
		Decode: func(text string) (ntp.Settings, string, error) {
			s := ntp.Settings{ServeClients: true}
			if err := decode(&s, field, []string{text}); err != nil {
				return s, "", err
			}
			return s, canonical(s), nil
		},
		Render: func(s ntp.Settings) ([]byte, error) { return dropInOf(ntp.Config{Settings: s}) },
	}.Check(t)
}

func TestHostileNetwork(t *testing.T) {
	hostileSetting(t, "allow_acl", "192.0.2.0/24", func(s ntp.Settings) string { return s.AllowACL[0].String() })
}

func TestHostileMakestep(t *testing.T) {
	for _, text := range conftest.Corpus {
		var s ntp.Settings
		if err := decode(&s, "makestep", "1.0 3"+text); err == nil && s.Makestep.String() != "1.0 3" {
			t.Errorf("%q became %q", text, s.Makestep)
		}
	}
}

// decode sets a value the way the API does.
func decode(into any, field string, v any) error {
	body, err := json.Marshal(map[string]any{field: v})
	if err != nil {
		return err // not valid UTF-8: no JSON can carry it
	}
	_, err = wire.Decode(body, into)
	return err
}
