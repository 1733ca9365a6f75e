package change

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
	"edge.internal/gateway/test/edits"
)

// Random change sets, each taken back: rows, files and the kernel's table are as before. GATEWAY_REVERTS asks for more of them.
func TestRandomChangesAreTakenBack(t *testing.T) {
	l := labtest.UpAsAdmin(t, lab.Options{})
	l.WaitSettled(t)
	e := edits.New(longtest.Seed(t, 2), func(method, path string, body any) (int, string, []byte, error) {
		a, err := l.Do(t.Context(), method, path, body)
		if err != nil {
			return 0, "", nil, err
		}
		if a.Status != 200 {
			return a.Status, "", a.Body, nil
		}
		for component := range strings.SplitSeq(a.Header.Get("Gateway-Apply"), ", ") {
			if strings.HasSuffix(component, "=degraded") {
				return 0, "", nil, fmt.Errorf("%s %s: %s", method, path, component)
			}
		}
		l.WaitSettled(t)
		return a.Status, a.Header.Get(httpd.ChangeSetHeader), a.Data, nil
	})
	e.Kernel = func() string { return l.Run(t, lab.Gateway, "nft", "-s", "list", "table", "inet", "gateway") }
	times, err := strconv.Atoi(os.Getenv("GATEWAY_REVERTS"))
	if err != nil {
		times = 8
	}
	for n := range times {
		if err := e.Revert(); err != nil {
			t.Fatalf("set %d: %v", n, err)
		}
	}
}
