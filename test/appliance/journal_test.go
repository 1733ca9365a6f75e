package appliance

import (
	"net/http"
	"testing"
)

// logs: what the machine's journal has is shown by the API, which is not root and has the helper ask.
func logs(t *testing.T, g *appliance) {
	var page struct {
		Entries []struct {
			Source, Level, Text string
			Fields              map[string]string
		}
		Errors []struct{ Source, Error string }
	}
	for _, source := range []string{"api", "helper", "reverse-proxy", "dns", "ntp", "journal", "audit"} {
		g.Must(t, http.MethodGet, "/logs?limit=20&sources="+source, nil, 200, &page)
		if len(page.Entries) == 0 || len(page.Errors) > 0 || page.Entries[0].Source != source {
			t.Errorf("%s: %+v", source, page)
		}
	}
	g.Must(t, http.MethodGet, "/logs?sources=api&text=gateway-api+is+READY", nil, 200, &page)
	if len(page.Entries) == 0 || page.Entries[0].Fields["unit"] != "gateway-api.service" || page.Entries[0].Fields["pid"] == "" {
		t.Errorf("%+v", page)
	}
	g.Must(t, http.MethodGet, "/logs?limit=1000", nil, 200, &page)
	if len(page.Errors) > 0 || len(page.Entries) == 0 {
		t.Errorf("%+v", page.Errors)
	}
}
