package alert

import (
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
)

// atOnce is how many channels are tested at the same time.
const atOnce = 100

// Tested lists the results of a test.
type Tested struct {
	EventID uuid.UUID    `json:"event_id" doc:"The test in the history."`
	Results []TestResult `json:"results" doc:"One for each channel that was tried."`
}

type TestResult struct {
	ChannelID  uuid.UUID `json:"channel_id" doc:"Which channel."`
	Channel    string    `json:"channel" doc:"Its name."`
	OK         bool      `json:"ok" doc:"Whether it accepted the message."`
	Error      string    `json:"error" doc:"Why not; empty if it did."`
	DurationMS int64     `json:"duration_ms" doc:"How long it took."`
}

func (r *Room) mountTest() {
	d := tag.Doc("alert.test", "Send a test to every channel that is on, and return the results")
	d.Audit = "alert.test"
	httpd.Handle(r.Router, http.MethodPost, "/alerts/test", httpd.Write.Here(), d, func(c *httpd.Call, _ struct{}) (Tested, error) {
		list, err := r.channels.Where(c, r.DB, "active")
		if err != nil {
			return Tested{}, err
		}
		return r.test(c, list, "every active channel")
	})
	one := tag.Doc("alert.channel.test", "Send a test to one channel, even if it is off")
	one.Audit = "alert.test"
	httpd.Handle(r.Router, http.MethodPost, "/alerts/{id}/test", httpd.Write.Here(), one, func(c *httpd.Call, in struct {
		ID uuid.UUID `path:"id" doc:"Id of the channel."`
	}) (Tested, error) {
		channel, err := r.channels.Get(c, r.DB, in.ID)
		if err != nil {
			return Tested{}, err
		}
		return r.test(c, []Channel{*channel}, channel.Label())
	})
}

// test sends a message to every channel in the list, once each and concurrently.
func (r *Room) test(c *httpd.Call, list []Channel, subject string) (Tested, error) {
	out := Tested{Results: make([]TestResult, len(list))}
	m := message{Kind: testKind.Name, Severity: alarm.Info, Subject: "Test", Message: "This is a test. The gateway sends its alerts here.", FiredAt: r.Clock.Now()}
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range list {
		channel, result := &list[i], &out.Results[i]
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			began := time.Now()
			err := r.send(c, channel, &m)
			*result = TestResult{ChannelID: channel.ID, Channel: channel.Label(), OK: err == nil, DurationMS: time.Since(began).Milliseconds()}
			if err != nil {
				result.Error = err.Error()
			}
		})
	}
	all.Wait()
	err := r.DB.Write(c, func(tx *db.Tx) error {
		e, err := r.Alarms.Note(tx, alarm.Alarm{Kind: testKind, Subject: m.Subject, Message: m.Message})
		if err != nil {
			return err
		}
		out.EventID = e.ID
		for _, x := range out.Results {
			state := "ok"
			if !x.OK {
				state = "error"
			}
			tx.Queue(`INSERT INTO alert_deliveries (event_id, channel_id, channel, state, attempts, error, next_at, ended_at) VALUES ($1, $2, $3, $4, 1, $5, $6, $6)`,
				e.ID, x.ChannelID, x.Channel, state, x.Error, r.Clock.Now())
		}
		return r.Audit.Write(c, tx, "alert.test", subject, map[string]any{"event_id": e.ID, "results": out.Results})
	})
	return out, err
}
