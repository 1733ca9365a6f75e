package opnsense_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/importer/importertest"
	"edge.internal/gateway/internal/importer/opnsense"
)

// devices maps the ports of the appliance to their names in Linux.
var devices = map[string]string{"igb0": "enp1s0", "igb1": "enp2s0"}

func read(ctx context.Context, text []byte) (*importer.Document, *importer.Report, error) {
	return opnsense.Import(ctx, text, devices)
}

func TestImport(t *testing.T) { importertest.Golden(t, ".xml", read) }

// FuzzImport checks that every file yields a document and a report, or an error.
func FuzzImport(f *testing.F) { importertest.Fuzz(f, ".xml", read) }

// A text that comments split into many parts is joined once.
func TestATextOfManyPartsIsReadOnce(t *testing.T) {
	const parts = 20_000
	text := []byte("<opnsense><system><hostname>" + strings.Repeat("abcdefghij<!---->", parts) + "</hostname></system></opnsense>")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := read(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 100<<20 {
		t.Errorf("%d MiB were allocated for %d parts", made>>20, parts)
	}
}

func TestAnImportEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := read(ctx, []byte("<opnsense/>")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
