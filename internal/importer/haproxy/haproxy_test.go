package haproxy_test

import (
	"testing"

	"edge.internal/gateway/internal/importer/haproxy"
	"edge.internal/gateway/internal/importer/importertest"
)

func TestImport(t *testing.T) { importertest.Golden(t, ".cfg", haproxy.Import) }

// FuzzImport checks that every file yields a document and a report, or an error.
func FuzzImport(f *testing.F) { importertest.Fuzz(f, ".cfg", haproxy.Import) }
