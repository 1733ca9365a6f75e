package system

import (
	"slices"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/kittest"
)

// The load charts begin with what the gateway remembers: a point is what was measured at its time.
func TestLoadIsRemembered(t *testing.T) {
	b := kittest.New(t)
	r := New(b.Kit, Deps{})
	r.mountLoad()
	b.Start(t)
	at := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	for n := range 3 {
		r.history.Add(at.Add(time.Duration(5*n)*time.Second), host.Resources{Load1: float64(n), MemoryTotal: 100, MemoryAvailable: uint64(60 - n), ConntrackCount: uint64(7 + n)})
	}
	var got LoadHistory
	b.Do(t, "viewer", "GET", "/system/resources/history", nil).Want(t, 200).Into(t, &got)
	want := []Load{{at.Add(5 * time.Second), 1, 0.41, 8}, {at.Add(10 * time.Second), 2, 0.42, 9}}
	if got.StepSeconds != 5 || !slices.Equal(got.Points, want) {
		t.Errorf("%+v", got)
	}
}
