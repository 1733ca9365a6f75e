package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"edge.internal/gateway/internal/kit/db/dbtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gateway-ctl": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("DB", dbtest.URL(t))
			e.Setenv("TMPDIR", os.TempDir()) // the daemons' checks run as another user, who cannot enter the script's own folder
			return nil
		},
	})
}
