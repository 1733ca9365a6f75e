package faults

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab/labtest"
)

// A change that waits for confirmation, and a kill at each point: before the commit nothing is left of it, and after it the change waits and
// is reverted, at the next start or, if the API survives, at the deadline.
func killAroundHeldChange(t *testing.T, l *labtest.Lab) {
	var all []death
	for _, component := range []string{"ntp", "packet-filter"} {
		for _, point := range failpoint.All() {
			all = append(all, death{component, point})
		}
	}
	for i, d := range longtest.Some(t, 2, all) {
		heldDies(t, l, 1<<12+i, d)
	}
}

func heldDies(t *testing.T, l *labtest.Lab, cycle int, d death) {
	t.Helper()
	arm(t, l, d)
	before, err := os.ReadFile(l.Path(files[d.component]))
	if err != nil {
		t.Fatal(err)
	}
	name, path, body := d.change(cycle)
	reason := fmt.Sprintf("held %d", cycle)
	a, err := l.Do(t.Context(), http.MethodPost, path, body, httpd.ConfirmWithinHeader, fmt.Sprint(httpd.MinConfirm.Seconds()), httpd.ReasonHeader, url.PathEscape(reason))
	if (err == nil) != failpoint.InHelper(d.point) || err == nil && a.Status != 201 || !struck(l, d.point) {
		t.Fatalf("%+v: %v, %+v", d, err, a)
	}
	ready(t, l, time.Now())
	type set struct {
		ID, State, Reason string
		RevertedBy        string `json:"reverted_by"`
	}
	var sets []set
	waittest.UntilNil(t, fmt.Sprintf("the end of a change after a death at %s", d.point), func() error {
		var waiting []struct{ ID string }
		l.Must(t, http.MethodGet, "/change-sets/waiting", nil, 200, &waiting)
		sets = nil
		l.Must(t, http.MethodGet, "/change-sets?reason="+url.QueryEscape(reason), nil, 200, &sets)
		if len(waiting) > 0 || committed(d.point) != (len(sets) == 1 && sets[0].State == "taken_back") {
			return fmt.Errorf("%+v waits, of %+v", waiting, sets)
		}
		return nil
	})
	switch {
	case !committed(d.point) && len(sets) > 0:
		t.Fatalf("after a death at %s there is %+v", d.point, sets)
	case committed(d.point):
		why := "The gateway was restarted before it was confirmed."
		if failpoint.InHelper(d.point) {
			why = "It was not confirmed in time."
		}
		var back set
		if l.Must(t, http.MethodGet, "/change-sets/"+sets[0].RevertedBy, nil, 200, &back); back.Reason != why {
			t.Errorf("after a death at %s it was taken back for another reason: %s", d.point, back.Reason)
		}
	}
	l.WaitSettled(t)
	if ids := d.stored(t, l, name); len(ids) > 0 {
		t.Errorf("after a death at %s the row is still stored", d.point)
	}
	if after, err := os.ReadFile(l.Path(files[d.component])); err != nil || !bytes.Equal(after, before) {
		t.Errorf("after a death at %s the file is\n%s\nand was\n%s\n%v", d.point, after, before, err)
	}
}
