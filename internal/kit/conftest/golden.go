package conftest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/helper/guard"
)

var update = flag.Bool("update", false, "rewrite the expected files")

// Golden renders the configuration of each case in testdata/render, its first file, and compares the result with the other files
// of the case.
type Golden[C any] struct {
	Render func(C) ([]host.File, error)
	// Hidden files are not part of the cases.
	Hidden func(host.File) bool
	// Accept passes the files to the daemon; it may replace the content of hidden ones.
	Accept func(t testing.TB, files []host.File)
}

// Check runs the cases.
func (g Golden[C]) Check(t *testing.T) {
	t.Helper()
	cases, err := filepath.Glob("testdata/render/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { g.one(t, path) })
	}
}

func (g Golden[C]) one(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c C
	if err := json.Unmarshal(archive.Files[0].Data, &c); err != nil {
		t.Fatal(err)
	}
	files, err := g.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	got := []txtar.File{archive.Files[0]}
	for _, f := range files {
		if err := guard.Admit(f); err != nil {
			t.Error(err)
		}
		if g.Hidden == nil || !g.Hidden(f) {
			got = append(got, txtar.File{Name: f.Place.Path(), Data: f.Content})
		}
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: got}), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(archive.Files, got); diff != "" {
		t.Error(diff)
	}
	g.Accept(t, files)
}
