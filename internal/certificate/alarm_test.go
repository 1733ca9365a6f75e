package certificate_test

import (
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/waittest"
)

// open returns the open alarms of a kind.
func (h *house) open(t *testing.T, kind alarm.Name) (list []alarm.Condition) {
	t.Helper()
	all, err := h.Alarms.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Kind == kind {
			list = append(list, c)
		}
	}
	return list
}

// AL-07: two domains that cannot be renewed are two alarms, each of which ends independently. A failed pass is another.
func TestAL07EachFailedDomainIsAnAlarm(t *testing.T) {
	w := newWorld(t, nil)
	w.run(t)
	one := w.create(t, map[string]any{"names": []string{"one.nowhere.example"}})
	w.create(t, map[string]any{"names": []string{"two.nowhere.example"}})
	waittest.Until(t, "two alarms", func() bool { return len(w.open(t, "cert.renew_failed")) == 2 })
	for _, c := range w.open(t, "cert.renew_failed") {
		if !strings.Contains(c.Subject, ".nowhere.example") || c.Message == "" || c.Severity != alarm.Error {
			t.Errorf("%+v", c)
		}
	}
	var raised int
	if err := w.DB.QueryRow(t.Context(), `SELECT count(*) FROM alarm_events WHERE kind = 'cert.renew_failed' AND resolves IS NULL`).Scan(&raised); err != nil || raised != 2 {
		t.Fatal(raised, err)
	}
	w.Do(t, "admin", "DELETE", "/certificates/"+one.ID, nil).Want(t, 200)
	w.room.Wake()
	waittest.Until(t, "one alarm is over", func() bool {
		list := w.open(t, "cert.renew_failed")
		return len(list) == 1 && strings.Contains(list[0].Subject, "two.nowhere.example")
	})

	rename := func(sql string) {
		t.Helper()
		if err := w.DB.Write(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(t.Context(), sql); return err }); err != nil {
			t.Fatal(err)
		}
		w.room.Wake()
	}
	rename(`ALTER TABLE certificate_certificates RENAME TO certificate_elsewhere`)
	waittest.Until(t, "an alarm of the round", func() bool { return len(w.open(t, "cert.renewer.run_failed")) == 1 })
	rename(`ALTER TABLE certificate_elsewhere RENAME TO certificate_certificates`)
	waittest.Until(t, "the round is well again", func() bool { return len(w.open(t, "cert.renewer.run_failed")) == 0 })
}
