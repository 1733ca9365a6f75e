package waf

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/waf/engine"
)

const (
	// topMost is how many of each kind a summary lists.
	topMost = 10
	// someHours is how far a summary looks back by default, and mostHours how far records go back.
	someHours, mostHours = 24, 30 * 24
	// agentWithin limits the wait for the agent's status.
	agentWithin = time.Second
	// agentAnswer is more than the agent's answer.
	agentAnswer = 64 << 10
	// mostRules is the maximum number of rules found by a search.
	mostRules = 200
)

// Agent is the present state of the program that inspects requests.
type Agent struct {
	State     string           `json:"state" enum:"up,starting,down" doc:"Whether it inspects requests. While it does not, they pass or are refused, depending on fail_open of their domain."`
	Reason    string           `json:"reason" doc:"Why it does not; empty when it is up."`
	Version   string           `json:"version" doc:"Its version."`
	Since     *time.Time       `json:"since" doc:"When it started."`
	Domains   int              `json:"domains" doc:"How many domains it inspects."`
	Engines   int              `json:"engines" doc:"How many engines it has: one for all, and one for each distinct text of custom rules."`
	Builds    int64            `json:"builds" doc:"How many engines it has built since it started."`
	Inspected int64            `json:"inspected" doc:"How many requests it has inspected."`
	Denied    int64            `json:"denied" doc:"How many of these it has refused."`
	Failed    map[string]int64 `json:"failed" doc:"How many requests it had no verdict on, by reason."`
	Dropped   int64            `json:"dropped" doc:"How many records it could not keep until the database took them."`
	Source    string           `json:"source" doc:"Source of its configuration: the database, or its file while the database is unavailable."`

	// The configuration in use: see agent.Status.
	configuration string
	unusable      int
}

// agent asks the agent for its status.
func (r *Room) agent(ctx context.Context) Agent {
	down := Agent{State: "down", Failed: map[string]int64{}}
	client := httpd.SocketClient(filepath.Join(r.Paths.Root, host.WAFSocket), agentWithin)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/status", nil)
	if err != nil {
		down.Reason = err.Error()
		return down
	}
	res, err := client.Do(req)
	if err != nil {
		down.Reason = "The agent does not answer. Start the WAF service."
		return down
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusServiceUnavailable {
		down.State, down.Reason = "starting", "The agent is starting: it builds its engines."
		return down
	}
	answer := struct {
		Agent
		Configuration string
		Unusable      int
	}{}
	if err := json.NewDecoder(http.MaxBytesReader(nil, res.Body, agentAnswer)).Decode(&answer); err != nil || res.StatusCode != http.StatusOK {
		down.Reason = fmt.Sprintf("The agent answers with %d and an invalid status.", res.StatusCode)
		return down
	}
	answer.State, answer.Reason = "up", ""
	if answer.Failed == nil {
		answer.Failed = map[string]int64{}
	}
	answer.configuration, answer.unusable = answer.Configuration, answer.Unusable
	return answer.Agent
}

// Summary sums up the last hours, as far as there are records: an agent that is killed loses what it has not written yet, and the proxy's
// lines about uninspected requests may get lost.
type Summary struct {
	Hours   int         `json:"hours" doc:"How far it looks back."`
	Actions []Counted   `json:"actions" doc:"Records and requests by action. All numbers are lower bounds: records that the agent had not stored when it was killed are missing."`
	Rules   []RuleCount `json:"rules" doc:"The rules that matched most requests."`
	Domains []Counted   `json:"domains" doc:"The domains with the most requests that matched."`
	Clients []Counted   `json:"clients" doc:"The clients with the most requests that matched."`
	Series  []HourCount `json:"series" doc:"Requests per hour, oldest first, including hours without any. Lower bounds, too."`
	Enabled int         `json:"enabled" doc:"How many domains have the WAF on."`
	Agent   Agent       `json:"agent" doc:"The program that inspects requests, as it is now."`
}

// Counted is a count of records and requests.
type Counted struct {
	Name     string     `json:"name" doc:"What was counted."`
	DomainID *uuid.UUID `json:"domain_id" doc:"Id of a domain; null for everything else."`
	Records  int64      `json:"records" doc:"How many records there are."`
	Requests int64      `json:"requests" doc:"How many requests they are about."`
}

type RuleCount struct {
	RuleID   int    `json:"rule_id" doc:"The rule."`
	Message  string `json:"message" doc:"What it says."`
	Records  int64  `json:"records" doc:"How many records there are."`
	Requests int64  `json:"requests" doc:"How many requests they are about."`
}

type HourCount struct {
	At          time.Time `json:"at" doc:"When the hour began."`
	Detected    int64     `json:"detected" doc:"Requests that were let through although rules matched."`
	Blocked     int64     `json:"blocked" doc:"Requests that were refused."`
	Unavailable int64     `json:"unavailable" doc:"Records of requests that could not be inspected."`
}

func (r *Room) summary(ctx context.Context, hours int) (s Summary, err error) {
	if hours == 0 {
		hours = someHours
	}
	if hours < 1 || hours > mostHours {
		return s, fault.Field("hours", "must be between 1 and %d", mostHours)
	}
	s.Hours = hours
	from := r.Clock.Now().Add(-time.Duration(hours) * time.Hour)
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		const counts = "count(*), count(DISTINCT request_id)"
		if s.Actions, err = read[Counted](ctx, tx, `SELECT action, NULL::uuid, `+counts+` FROM waf_alerts WHERE created_at >= $1 GROUP BY 1 ORDER BY 1`, from); err != nil {
			return err
		}
		if s.Rules, err = read[RuleCount](ctx, tx, `SELECT rule_id, max(message), `+counts+` FROM waf_alerts WHERE created_at >= $1 AND rule_id > 0 GROUP BY 1 ORDER BY 4 DESC, 1 LIMIT $2`, from, topMost); err != nil {
			return err
		}
		if s.Domains, err = read[Counted](ctx, tx, `SELECT max(domain), domain_id, `+counts+` FROM waf_alerts WHERE created_at >= $1 AND domain_id IS NOT NULL GROUP BY 2 ORDER BY 4 DESC, 1 LIMIT $2`, from, topMost); err != nil {
			return err
		}
		if s.Clients, err = read[Counted](ctx, tx, `SELECT host(client_ip), NULL::uuid, `+counts+` FROM waf_alerts WHERE created_at >= $1 AND client_ip IS NOT NULL GROUP BY client_ip ORDER BY 4 DESC, 1 LIMIT $2`, from, topMost); err != nil {
			return err
		}
		s.Series, err = read[HourCount](ctx, tx, `
			SELECT h, count(DISTINCT a.request_id) FILTER (WHERE a.action = 'detected'), count(DISTINCT a.request_id) FILTER (WHERE a.action = 'blocked'), count(*) FILTER (WHERE a.action = 'unavailable')
			FROM generate_series(date_trunc('hour', $1::timestamptz), $2::timestamptz, interval '1 hour') h
			LEFT JOIN waf_alerts a ON a.created_at >= h AND a.created_at < h + interval '1 hour' AND a.created_at >= $1
			GROUP BY h ORDER BY h`, from, r.Clock.Now())
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT count(*) FROM waf_configs WHERE enabled").Scan(&s.Enabled)
	})
	s.Agent = r.agent(ctx)
	return s, err
}

// Rule is a rule of the core rule set.
type Rule struct {
	ID            int      `json:"id" doc:"Its id."`
	Message       string   `json:"message" doc:"What it says when it matches."`
	Severity      string   `json:"severity" doc:"Severity."`
	ParanoiaLevel int      `json:"paranoia_level" doc:"Lowest paranoia level that uses it."`
	Tags          []string `json:"tags" doc:"What it is about."`
}

// rules returns the rules that have all the words in their id, message or tags.
func rules(q string) ([]Rule, error) {
	all, err := engine.Catalog()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(strings.ToLower(q))
	list := []Rule{}
	for _, x := range all {
		text := strings.ToLower(strconv.Itoa(x.ID) + " " + x.Message + " " + x.Severity + " " + strings.Join(x.Tags, " "))
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			continue
		}
		list = append(list, Rule{x.ID, x.Message, x.Severity, x.Paranoia, x.Tags})
		if len(list) == mostRules {
			break
		}
	}
	return list, nil
}

func (r *Room) mountSummary() {
	httpd.Handle(r.Router, http.MethodGet, "/waf/status", httpd.Read, tag.Doc("waf.status", "The program that inspects requests, as it is now"),
		func(c *httpd.Call, _ struct{}) (Agent, error) { return r.agent(c), nil })
	httpd.Handle(r.Router, http.MethodGet, "/waf/summary", httpd.Read, tag.Doc("waf.summary", "What the WAF found in the last hours"),
		func(c *httpd.Call, in struct {
			Hours int `query:"hours" doc:"Hours to look back: 1 to 720, 24 by default."`
		}) (Summary, error) {
			return r.summary(c, in.Hours)
		})
	httpd.Handle(r.Router, http.MethodGet, "/waf/rules", httpd.Read, tag.Doc("waf.rules", "Rules of the core rule set"),
		func(_ *httpd.Call, in struct {
			Q string `query:"q" doc:"Words that the id, message, severity or tags have, all of them; at most 200 rules are found."`
		}) ([]Rule, error) {
			return rules(in.Q)
		})
}
