//go:build long

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// TestCluster runs the Playwright tests of the cluster's pages against two gateways, the second of which is not set up yet.
func TestCluster(t *testing.T) {
	t.Parallel()
	l := labtest.UpAsAdmin(t, lab.Options{Nodes: 2, Apart: true, Volatile: true})
	second := l.All()[1]
	token, err := second.SetupToken()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, exec.CommandContext(t.Context(), "npm", "--prefix", ui, "run", "--silent", "e2e-cluster"),
		"GATEWAY_RUN=cluster",
		"GATEWAY_URL="+l.URL(),
		"GATEWAY_SECOND_URL="+second.URL(),
		"GATEWAY_SECOND_SETUP_TOKEN="+token,
		"GATEWAY_ADMIN_EMAIL="+labtest.AdminEmail,
		"GATEWAY_ADMIN_PASSWORD="+labtest.AdminPassword,
		"GATEWAY_LAB="+filepath.Join(programs, "gateway-lab"),
		"GATEWAY_LAB_DIR="+l.Dir(),
	)
}
