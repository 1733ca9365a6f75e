package certificate_test

import (
	"testing"
	"time"

	"edge.internal/gateway/internal/certificate"
	"edge.internal/gateway/internal/kit/watch/watchtest"
)

func TestExpiring(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, certificate.Check)
	const day = 24 * time.Hour
	var rows []map[string]any
	add := func(name string, life, left time.Duration, source, status string) {
		end := w.Clock.Now().Add(left)
		rows = append(rows, map[string]any{"id": w.ID(name), "names": []string{name + ".example"}, "source": source, "status": status, "not_before": end.Add(-life), "expires_at": end})
	}
	add("fine", 90*day, 14*day, "acme", "valid")
	add("soon", 90*day, 14*day-time.Second, "acme", "expiring")
	add("very-soon", 90*day, 3*day-time.Second, "acme", "expiring")
	add("over", 90*day, -day, "uploaded", "expired")
	add("short", 6*day, 3*day, "acme", "valid") // renewed in its last third
	add("short-late", 6*day, 36*time.Hour-time.Second, "acme", "valid")
	add("short-uploaded", 6*day, 5*day, "uploaded", "valid")
	add("ordered", 90*day, day, "acme", "pending") // it has a self-signed one
	w.Answers["/certificates"] = rows
	w.Want(t, "cert.expiring error over", "cert.expiring error very-soon", "cert.expiring warning short-late", "cert.expiring warning short-uploaded", "cert.expiring warning soon")
	w.Answers["/certificates"] = []any{}
	w.Want(t)
}
