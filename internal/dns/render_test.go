package dns_test

import (
	"testing"

	"edge.internal/gateway/internal/dns"
	"edge.internal/gateway/internal/kit/conf/conftest"
	"edge.internal/gateway/internal/kit/host"
)

// checkconf asks the real checker about files.
func checkconf(t testing.TB, files []host.File) error {
	t.Helper()
	machine, err := host.New(host.Options{Units: host.NoUnits{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = machine.Run(t.Context(), host.UnboundCheck, host.Input{Staged: files})
	return err
}

func TestRender(t *testing.T) {
	conftest.Golden[*dns.Config]{
		Render: dns.Render,
		Accept: func(t testing.TB, files []host.File) {
			if err := checkconf(t, files); err != nil {
				t.Errorf("unbound refuses it: %v", err)
			}
		},
	}.Check(t)
}
