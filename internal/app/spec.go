package app

import (
	"bytes"
	"io"
	"log/slog"
	"os"

	"github.com/go-json-experiment/json/jsontext"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
	"edge.internal/gateway/internal/setup"
)

// WriteSpec writes the OpenAPI document of the routes, without a database or a machine.
func WriteSpec(w io.Writer) error {
	dir, err := os.MkdirTemp("", "gateway-spec-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	paths := kit.Paths{Root: dir}
	machine, err := machine.New(machine.Options{Root: dir, Units: units.None{}})
	if err != nil {
		return err
	}
	box, err := secret.NewBox(bytes.Repeat([]byte{0}, 32))
	if err != nil {
		return err
	}
	d, err := db.Open("postgres:///none?host=" + dir)
	if err != nil {
		return err
	}
	defer d.Close()
	store, err := setup.OpenStore(paths)
	if err != nil {
		return err
	}
	h, err := Build(kit.New(d, machine, clock.Real, slog.New(slog.DiscardHandler), box, paths, Version), store, password.New(password.Cost))
	if err != nil {
		return err
	}
	b, err := wire.Encode(h.Router.Spec(Version))
	if err != nil {
		return err
	}
	doc := jsontext.Value(b)
	if err := doc.Indent(jsontext.WithIndent("  ")); err != nil {
		return err
	}
	_, err = w.Write(append(doc, '\n'))
	return err
}
