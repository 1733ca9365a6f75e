package proxy_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/watch/watchtest"
	"edge.internal/gateway/internal/proxy"
)

// AL-06: a backend is down when all its servers are.
func TestAL06BackendDown(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, proxy.Check)
	ids := map[string]uuid.UUID{}
	check := func(backends map[string][]string) {
		rows, stats := []map[string]any{}, proxy.Stats{}
		for name, servers := range backends {
			if _, known := ids[name]; !known {
				ids[name] = w.ID(name)
			}
			rows = append(rows, map[string]any{"id": ids[name], "name": name})
			stats.Backends = append(stats.Backends, proxy.BackendStats{BackendID: ids[name].String(), Server: "BACKEND", Status: "UP"})
			for _, status := range servers {
				stats.Backends = append(stats.Backends, proxy.BackendStats{BackendID: ids[name].String(), Server: "server", Status: status})
			}
		}
		w.Answers["/backends"], w.Answers["/proxy/stats"] = rows, stats
	}
	backends := map[string][]string{
		"half": {"UP", "DOWN"}, "all": {"DOWN", "DOWN"}, "rest": {"MAINT", "DOWN"}, "maintained": {"MAINT"}, "unchecked": {"NO CHECK", "DOWN"}, "none": nil,
	}
	check(backends)
	w.Want(t, "backend.down error all", "backend.down error rest")
	backends["all"][0] = "UP"
	check(backends)
	w.Want(t, "backend.down error rest")
	// While the proxy does not answer, no alarm is cleared.
	w.Err = errors.New("haproxy does not run")
	if err := w.Look(t); err == nil {
		t.Error("the check has not failed")
	}
	w.Err = nil
	w.Answers["/proxy/stats"] = proxy.Stats{Error: "haproxy does not run"}
	if err := w.Look(t); err == nil {
		t.Error("the check has not failed")
	}
	check(backends)
	w.Want(t, "backend.down error rest")
}
