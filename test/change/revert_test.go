package change

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
	"edge.internal/gateway/test/edits"
)

// Random change sets, each reverted: rows, files and the kernel's table are as before. A long run and GATEWAY_REVERTS increase their number.
func TestRandomChangesAreTakenBack(t *testing.T) {
	l := labtest.UpAsAdmin(t, lab.Options{})
	l.WaitSettled(t)
	l.Must(t, http.MethodPost, "/system/ipv6", map[string]any{"enabled": true}, 200, nil)
	e := edits.NewOfAll(longtest.Seed(t, 2), func(method, path string, body any) (int, string, []byte, error) {
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
	}, func() (string, error) {
		a, err := l.Do(t.Context(), http.MethodGet, "/configuration", nil, "Accept", "application/json")
		if err != nil {
			return "", err
		}
		if a.Status != 200 {
			return "", fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return string(a.Body), nil
	})
	// The kernel lists chains in the order of their creation, which does not matter.
	e.Kernel = func() string {
		table := strings.TrimSpace(l.Run(t, lab.Gateway, "nft", "-s", "list", "table", "inet", "gateway"))
		chains := strings.Split(strings.TrimSuffix(table, "\n}"), "\n\n")
		slices.Sort(chains)
		return strings.Join(chains, "\n\n")
	}
	for n := range longtest.Number(t, "GATEWAY_REVERTS", 2, 8) {
		if err := e.Revert(); err != nil {
			t.Fatalf("set %d: %v", n, err)
		}
	}
}
