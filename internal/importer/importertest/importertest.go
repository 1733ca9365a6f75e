// Package importertest tests importers with golden files.
package importertest

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/goccy/go-yaml"

	"edge.internal/gateway/internal/importer"
)

var update = flag.Bool("update", false, "write the expected documents and reports")

// Import is the importer under test.
type Import func(ctx context.Context, text []byte) (*importer.Document, *importer.Report, error)

// Golden imports the files of testdata with a suffix, and compares each result with the files beside it: NAME.yaml is the document,
// NAME.report what was not carried over.
func Golden(t *testing.T, suffix string, read Import) {
	files, err := filepath.Glob("testdata/*" + suffix)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			doc, report, err := read(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(file)
			made, err := doc.YAML(name)
			if err != nil {
				t.Fatal(err)
			}
			var printed bytes.Buffer
			if err := report.Print(&printed, name); err != nil {
				t.Fatal(err)
			}
			compare(t, strings.TrimSuffix(file, suffix)+".yaml", made)
			compare(t, strings.TrimSuffix(file, suffix)+".report", printed.Bytes())
		})
	}
}

// Fuzz gives an importer variations of the files of testdata with a suffix. It must not panic, its output must be YAML, and neither the
// document nor the report may grow out of proportion to the file.
func Fuzz(f *testing.F, suffix string, read Import) {
	files, err := filepath.Glob("testdata/*" + suffix)
	if err != nil || len(files) == 0 {
		f.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, report, err := read(t.Context(), text)
		if err != nil {
			return
		}
		made, err := doc.YAML("fuzz")
		if err != nil {
			t.Fatal(err)
		}
		var back struct {
			Gateway int `yaml:"gateway"`
		}
		if err := yaml.Unmarshal(made, &back); err != nil || back.Gateway != 1 {
			t.Fatalf("%v in\n%s", err, made)
		}
		var printed bytes.Buffer
		if err := report.Print(&printed, "fuzz"); err != nil {
			t.Fatal(err)
		}
		if most := 1<<20 + 1000*len(text); len(made)+printed.Len() > most {
			t.Errorf("%d bytes became %d of a document and %d of a report", len(text), len(made), printed.Len())
		}
	})
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := udiff.Unified(file, "now", string(want), string(got)); diff != "" {
		t.Errorf("%s", diff)
	}
}
