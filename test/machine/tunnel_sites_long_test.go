//go:build long

package machine

import (
	"testing"

	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

func init() { siteTests = append(siteTests, siteTest{"MainGatewayBootsAgain", mainGatewayBootsAgain}) }

// mainGatewayBootsAgain: the tunnels recover without manual steps.
func mainGatewayBootsAgain(t *testing.T, s *twoSites) {
	if err := s.main.Down(); err != nil {
		t.Fatal(err)
	}
	// They notice that they get no answer.
	s.cannotReach(t, s.branch, "phone1", lan4)
	s.cannotReach(t, s.branch, lab.Lan, lan4)
	s.main.Lab = labtest.Up(t, lab.Options{Dir: s.main.Dir(), Volatile: true})
	s.join(t)
	s.serve(t, s.main, lab.Lan)
	s.serve(t, s.main, lab.Wan)
	s.reaches(t, s.branch, "phone1", lan4, "lan "+s.phone1)
	s.reaches(t, s.branch, lab.Lan, lan4, "lan "+branchTunnel4)
	s.reaches(t, s.branch, lab.Lan, wan4, "wan "+gwWan4)
}
