//go:build long

package appliance

import (
	"net/http"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
)

// CrowdSec may be installed after the gateway, while detection is off or on, and be purged and installed again: then it detects, and its bouncer drops,
// without manual steps.
func TestCrowdSecComesLater(t *testing.T) {
	g := newAppliance(t)
	g.install(t)
	g.completeSetup(t)
	g.detects(t, "not_installed")

	g.come(t)
	g.detects(t, "live")
	g.live(t, http.MethodPut, "/ids/settings", fields{"enabled": true})
	g.drops(t, "192.0.2.66")

	g.sh(t, "apt-get purge -y -q crowdsec crowdsec-firewall-bouncer 2>&1")
	g.detects(t, "not_installed")
	g.come(t)
	g.detects(t, "live")
	g.drops(t, "192.0.2.67")
}

func (g *appliance) come(t *testing.T) {
	t.Helper()
	if err := g.Install(t.Context(), detection...); err != nil {
		t.Fatal(err)
	}
}

// detects waits until CrowdSec and its bouncer are in a state.
func (g *appliance) detects(t *testing.T, state string) {
	t.Helper()
	for _, c := range []string{"ids", "ids-firewall-bouncer"} {
		g.WaitState(t, c, state, 30*time.Second)
	}
}

// drops bans an address, and waits until the kernel drops its packets.
func (g *appliance) drops(t *testing.T, address string) {
	t.Helper()
	g.Must(t, http.MethodPost, "/ids/decisions", fields{"value": address}, 201, nil)
	waittest.UntilNil(t, "the kernel drops packets of "+address, func() error {
		_, err := g.Run(t.Context(), "nft", "get", "element", "ip", "crowdsec", "crowdsec-blacklists", "{", address, "}")
		return err
	})
}
