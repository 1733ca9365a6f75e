package ntp_test

import (
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/watch/watchtest"
	"edge.internal/gateway/internal/ntp"
)

// AL-06: the clock is not synchronised at stratum 0 or from 16, or with a reference of zeros, except at boot.
func TestAL06ClockUnsync(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, ntp.Check)
	up := func(d time.Duration) { w.Machine.SetResources(host.Resources{Uptime: d}) }
	up(time.Hour)
	const wrong = "ntp.unsync warning"
	for _, x := range []struct {
		status ntp.Status
		want   []string
	}{
		{ntp.Status{Stratum: 3, ReferenceID: "C0000201"}, nil},
		{ntp.Status{Stratum: 0, ReferenceID: "C0000201"}, []string{wrong}},
		{ntp.Status{Stratum: 16, ReferenceID: "C0000201"}, []string{wrong}},
		{ntp.Status{Stratum: 15, ReferenceID: "C0000201"}, nil},
		{ntp.Status{Stratum: 10, ReferenceID: "00000000"}, []string{wrong}},
		{ntp.Status{Stratum: 10, ReferenceID: "7F7F0101"}, nil},
	} {
		w.Answers["/ntp/status"] = x.status
		w.Want(t, x.want...)
	}
	w.Answers["/ntp/status"] = ntp.Status{Stratum: 0, ReferenceID: "00000000"}
	up(9 * time.Minute)
	w.Want(t)
	up(10 * time.Minute)
	w.Want(t, wrong)
	up(time.Minute) // after a restart no alarm is cleared
	w.Want(t, wrong)
	w.Answers["/ntp/status"] = ntp.Status{Error: "chronyd does not run"}
	if err := w.Look(t); err == nil {
		t.Error("the check has not failed")
	}
}
