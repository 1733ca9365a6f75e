package ids

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// alertsShown and alertsMost are the default and the maximum number of alerts in an answer.
	alertsShown = 100
	alertsMost  = 1000
	// hoursMost is the maximum age of alerts in a query.
	hoursMost = 8760
)

// Alert is an attack that CrowdSec has found.
type Alert struct {
	ID        int64     `json:"id" doc:"Its number at CrowdSec."`
	CreatedAt time.Time `json:"created_at" doc:"When it was reported."`
	Scenario  string    `json:"scenario" doc:"What was found: the name of the scenario."`
	Message   string    `json:"message" doc:"What happened, in CrowdSec's words."`
	Scope     string    `json:"scope" doc:"Kind of the value, for example Ip."`
	Value     string    `json:"value" doc:"Who did it."`
	Events    int       `json:"events_count" doc:"Number of log lines that caused it."`
	StartedAt time.Time `json:"started_at" doc:"When the first was seen."`
	StoppedAt time.Time `json:"stopped_at" doc:"When the last was seen."`
	Machine   string    `json:"machine" doc:"Which machine reported it."`
	Decisions int       `json:"decisions_count" doc:"How many decisions about it are in force."`
}

// AlertDetails is an alert with its causes and consequences.
type AlertDetails struct {
	Alert
	EventList []AlertEvent `json:"events" doc:"The log lines that caused it, as far as CrowdSec keeps them."`
	Decided   []Decision   `json:"decisions" doc:"What followed and is in force."`
	Error     string       `json:"error" doc:"Why CrowdSec could not be asked; empty when it could."`
}

// AlertEvent is a log line that led to an alert.
type AlertEvent struct {
	At   time.Time         `json:"at" doc:"When."`
	Meta map[string]string `json:"meta" doc:"What was read of it."`
}

type Alerts struct {
	Alerts []Alert `json:"alerts" doc:"Those that match, newest first."`
	Error  string  `json:"error" doc:"Why CrowdSec could not be asked; empty when it could."`
}

// rawAlert is an alert as CrowdSec encodes it.
type rawAlert struct {
	ID        int64  `json:"id"`
	CreatedAt string `json:"created_at"`
	Scenario  string `json:"scenario"`
	Message   string `json:"message"`
	Count     int    `json:"events_count"`
	StartAt   string `json:"start_at"`
	StopAt    string `json:"stop_at"`
	Machine   string `json:"machine_id"`
	Source    struct {
		Scope string `json:"scope"`
		Value string `json:"value"`
	} `json:"source"`
	Events []struct {
		Timestamp string `json:"timestamp"`
		Meta      []struct {
			Key   string `json:"key"`
			Value string `json:"value"`
		} `json:"meta"`
	} `json:"events"`
	Decisions []struct {
		ID       int64  `json:"id"`
		Duration string `json:"duration"`
	} `json:"decisions"`
}

type alertQuery struct {
	Address  value.Addr `query:"address" doc:"Who did it."`
	Scenario string     `query:"scenario" doc:"What was found: the name of the scenario."`
	Hours    *int       `query:"hours" doc:"How long ago at most, up to 8760."`
	Limit    *int       `query:"limit" doc:"How many, at most 1000; 100 by default."`
}

func (q *alertQuery) Validate() error {
	var c check.List
	c.That(q.Hours == nil || *q.Hours >= 1 && *q.Hours <= hoursMost, "hours", "must be between 1 and %d", hoursMost)
	c.That(q.Limit == nil || *q.Limit >= 1 && *q.Limit <= alertsMost, "limit", "must be between 1 and %d", alertsMost)
	return c.Err()
}

// values encodes the query for CrowdSec.
func (q *alertQuery) values() url.Values {
	v := url.Values{"limit": {strconv.Itoa(alertsShown)}}
	if q.Limit != nil {
		v.Set("limit", strconv.Itoa(*q.Limit))
	}
	if !q.Address.IsZero() {
		v.Set("ip", q.Address.String())
	}
	if q.Scenario != "" {
		v.Set("scenario", q.Scenario)
	}
	if q.Hours != nil {
		v.Set("since", strconv.Itoa(*q.Hours)+"h")
	}
	return v
}

func (r *Room) mountAlerts() {
	httpd.Handle(r.Router, http.MethodGet, "/ids/alerts", httpd.Read, tag.Doc("ids.alert.list", "List the alerts"),
		func(c *httpd.Call, in alertQuery) (Alerts, error) { return r.alerts(c, in.values()), nil })
	httpd.Handle(r.Router, http.MethodGet, "/ids/alerts/{id}", httpd.Read, tag.Doc("ids.alert.get", "One alert, with the log lines that caused it"),
		func(c *httpd.Call, in struct {
			ID int64 `path:"id" doc:"Number of the alert."`
		}) (AlertDetails, error) {
			return r.alert(c, in.ID)
		})
}

func (r *Room) alerts(ctx context.Context, query url.Values) Alerts {
	raw, err := r.asked.alerts.Ask(ctx, query.Encode(), func(ctx context.Context) (raw []rawAlert, err error) {
		err = r.asMachine(ctx, crowdsec.Question{Verb: crowdsec.Alerts, Query: query}, &raw)
		return raw, err
	})
	if err != nil {
		return Alerts{Alerts: []Alert{}, Error: problem(ctx, err)}
	}
	list := Alerts{Alerts: make([]Alert, 0, len(raw))}
	for _, s := range raw {
		list.Alerts = append(list.Alerts, s.alert())
	}
	return list
}

func (s rawAlert) alert() Alert {
	a := Alert{
		ID: s.ID, CreatedAt: moment(s.CreatedAt), Scenario: s.Scenario, Message: s.Message, Scope: s.Source.Scope, Value: s.Source.Value, Events: s.Count,
		StartedAt: moment(s.StartAt), StoppedAt: moment(s.StopAt), Machine: s.Machine,
	}
	for _, d := range s.Decisions {
		if left, err := time.ParseDuration(d.Duration); err == nil && left > 0 {
			a.Decisions++
		}
	}
	return a
}

// moment parses CrowdSec's two time formats.
func moment(text string) time.Time {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999 -0700 MST"} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

func (r *Room) alert(ctx context.Context, id int64) (AlertDetails, error) {
	none := fault.New(fault.NotFound, "This alert does not exist.")
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	raw, err := r.asked.alert.Ask(ctx, strconv.FormatInt(id, 10), func(ctx context.Context) (raw rawAlert, err error) {
		err = r.asMachine(ctx, crowdsec.Question{Verb: crowdsec.Alert, ID: id}, &raw)
		return raw, err
	})
	if refused, ok := errors.AsType[*crowdsec.Refused](err); ok && refused.Status == http.StatusNotFound {
		return AlertDetails{}, none
	}
	details := AlertDetails{Alert: raw.alert(), EventList: []AlertEvent{}, Decided: []Decision{}, Error: problem(ctx, err)}
	if err != nil {
		details.ID = id
		return details, nil
	}
	for _, e := range raw.Events {
		event := AlertEvent{At: moment(e.Timestamp), Meta: map[string]string{}}
		for _, m := range e.Meta {
			event.Meta[m.Key] = host.WithoutQueries(m.Value)
		}
		details.EventList = append(details.EventList, event)
	}
	decided, err := r.inForce(ctx)
	details.Error = problem(ctx, err)
	for _, d := range decided {
		for _, own := range raw.Decisions {
			if own.ID == d.ID {
				details.Decided = append(details.Decided, d)
			}
		}
	}
	r.prove(ctx, details.Decided)
	return details, nil
}
