package proxy_test

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/proxy"
)

// Rows are not validated again when they are read. Those with values that are no longer valid, from an older version or a person, are
// left out, and the rest is served.
func TestRowsOfAnotherFormAreLeftOut(t *testing.T) {
	base := one(t)
	stored := func(into interface{ ScanText(pgtype.Text) error }, text string) {
		if err := into.ScanText(pgtype.Text{String: text, Valid: true}); err != nil {
			t.Fatal(err)
		}
	}
	server := base.Servers[0]
	server.ID = uuid.New()
	stored(&server.Name, "what {is} this")
	var name value.SiteName
	stored(&name, "no name")
	certificate := proxy.Certificate{ID: uuid.New(), Names: []value.SiteName{name}, PEM: base.Default}
	c := &proxy.Config{
		Domains: base.Domains, Headers: base.Headers, Backends: base.Backends, Spares: base.Spares, Rules: base.Rules, Default: base.Default, FQDN: base.FQDN,
		Servers: append([]proxy.Server{server}, base.Servers...), Certificates: append([]proxy.Certificate{certificate}, base.Certificates...),
	}
	files, err := proxy.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	want, err := proxy.Render(base)
	if err != nil || len(files) != len(want) {
		t.Fatal(len(files), len(want), err)
	}
	for i := range files {
		if files[i].Place != want[i].Place || !bytes.Equal(files[i].Content, want[i].Content) {
			t.Errorf("%s:\n%s\ninstead of\n%s", files[i].Place, files[i].Content, want[i].Content)
		}
	}
}
