package waf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

// Alert is one rule that matched one request, or a request that could not be inspected.
type Alert struct {
	ID        uuid.UUID  `json:"id" doc:"Id of the record; later ones have greater ids."`
	CreatedAt time.Time  `json:"created_at" doc:"When it was written."`
	RequestID string     `json:"request_id" doc:"Reference number of the request, as the block page shows it."`
	DomainID  *uuid.UUID `json:"domain_id" doc:"Domain that was requested. It may no longer exist."`
	Domain    string     `json:"domain" doc:"Host name that was asked for."`
	RuleID    int        `json:"rule_id" doc:"Rule that matched; 0 for a request that could not be inspected."`
	Severity  string     `json:"severity" doc:"Severity set by the rule."`
	Action    string     `json:"action" enum:"detected,blocked,unavailable" doc:"Whether the request was let through, refused, or could not be inspected."`
	Message   string     `json:"message" doc:"What the rule says."`
	Method    string     `json:"method" doc:"Method of the request."`
	URI       string     `json:"uri" doc:"What was asked for."`
	ClientIP  string     `json:"client_ip" doc:"Address of the client, behind trusted proxies."`
	Score     int        `json:"score" doc:"Total score of the rules that matched."`
	Paranoia  int        `json:"paranoia" doc:"Lowest paranoia level that uses the rule; 0 if it has none."`
	Tags      []string   `json:"tags" doc:"What the rule is about."`
	Data      []Datum    `json:"data" doc:"Parts of the request that the rule matched, without secrets. For requests that could not be inspected: how many there were and how many of them were refused, at least, and why."`
	Partial   bool       `json:"partial" doc:"Not all of the body was inspected."`
	Deciding  bool       `json:"deciding" doc:"The rule decided about the request."`
}

// Datum is a part of a request.
type Datum struct {
	Variable string `json:"variable" doc:"Kind of the part, for example ARGS."`
	Key      string `json:"key" doc:"Its name, for example of a parameter."`
	Value    string `json:"value" doc:"Its beginning."`
	Masked   bool   `json:"masked" doc:"Secrets in it were replaced."`
}

const (
	detected    = "detected"
	blocked     = "blocked"
	unavailable = "unavailable"
)

// selectAlerts reads whole records, in the order of their fields.
const selectAlerts = `SELECT id, created_at, request_id, domain_id, domain, rule_id, severity, action, message, method, uri,
	coalesce(host(client_ip), ''), score, paranoia, tags, data, partial, deciding FROM waf_alerts`

const (
	// someAlerts and mostAlerts are the default and the maximum number of records in an answer.
	someAlerts, mostAlerts = 100, 1000
	// liveAlerts is how many records a stream begins with.
	liveAlerts = 50
)

// AlertFilter selects records.
type AlertFilter struct {
	DomainID uuid.UUID `query:"domain_id" doc:"Only of this domain."`
	RuleID   int       `query:"rule_id" doc:"Only of this rule."`
	Client   string    `query:"client" doc:"Only of this address or network."`
	Action   string    `query:"action" doc:"Only detected, blocked or unavailable."`
	Since    time.Time `query:"since" doc:"Not before this time."`
	Until    time.Time `query:"until" doc:"Not after this time."`
	Q        string    `query:"q" doc:"Text in the URI, the message, the host name or the reference number; case does not matter."`
	Limit    int       `query:"limit" doc:"How many, at most 1000; a stream starts with this many."`
	Before   uuid.UUID `query:"before" doc:"Only records older than the one with this id, to read on."`
}

// network returns the client as a network; it is invalid if none is given.
func (f *AlertFilter) network() (p netip.Prefix, err error) {
	if f.Client == "" {
		return p, nil
	}
	if a, err := netip.ParseAddr(f.Client); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	if p, err = netip.ParsePrefix(f.Client); err != nil {
		return p, fault.Field("client", "must be an address or a network, for example 192.0.2.0/24")
	}
	return p.Masked(), nil
}

func (f *AlertFilter) Validate() error {
	var c check.List
	c.That(f.Limit >= 0 && f.Limit <= mostAlerts, "limit", "must be between 1 and %d", mostAlerts)
	c.That(slices.Contains([]string{"", detected, blocked, unavailable}, f.Action), "action", "must be one of detected, blocked, unavailable")
	_, err := f.network()
	return cmp.Or(c.Merge(err), c.Err())
}

// liveFilter selects the records of a stream. It needs no place to continue from.
type liveFilter AlertFilter

func (f *liveFilter) Validate() error {
	var c check.List
	c.That(f.Before == uuid.Nil, "before", "applies to the list only. A stream starts with the newest alert")
	return cmp.Or(c.Merge((*AlertFilter)(f).Validate()), c.Err())
}

// takes reports whether a record matches, like the list's query.
func (f *AlertFilter) takes(a *Alert) bool {
	network, _ := f.network()
	client, _ := netip.ParseAddr(a.ClientIP)
	return (f.DomainID == uuid.Nil || a.DomainID != nil && *a.DomainID == f.DomainID) &&
		(f.RuleID == 0 || a.RuleID == f.RuleID) &&
		(!network.IsValid() || network.Contains(client)) &&
		(f.Action == "" || a.Action == f.Action) &&
		!a.CreatedAt.Before(f.Since) && (f.Until.IsZero() || !a.CreatedAt.After(f.Until)) &&
		strings.Contains(strings.ToLower(a.URI+" "+a.Message+" "+a.Domain+" "+a.RequestID), strings.ToLower(f.Q))
}

func absent[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func (r *Room) alerts(ctx context.Context, q db.Querier, f AlertFilter) ([]Alert, error) {
	if f.Limit == 0 {
		f.Limit = someAlerts
	}
	network, err := f.network()
	if err != nil {
		return nil, err
	}
	return read[Alert](ctx, q, selectAlerts+`
		WHERE ($1::uuid IS NULL OR domain_id = $1)
		  AND ($2::int IS NULL OR rule_id = $2)
		  AND ($3::inet IS NULL OR client_ip <<= $3)
		  AND ($4 = '' OR action = $4)
		  AND ($5::timestamptz IS NULL OR created_at >= $5)
		  AND ($6::timestamptz IS NULL OR created_at <= $6)
		  AND ($7 = '' OR position(lower($7) IN lower(uri || ' ' || message || ' ' || domain || ' ' || request_id)) > 0)
		  AND ($8::uuid IS NULL OR id < $8)
		ORDER BY id DESC LIMIT $9`,
		absent(f.DomainID), absent(f.RuleID), absent(network), f.Action, absent(f.Since), absent(f.Until), f.Q, absent(f.Before), f.Limit)
}

// read reads rows into structs, column by column.
func read[T any](ctx context.Context, q db.Querier, sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if list == nil {
		list = []T{}
	}
	return list, err
}

func (r *Room) alert(ctx context.Context, q db.Querier, id uuid.UUID) (Alert, error) {
	list, err := read[Alert](ctx, q, selectAlerts+" WHERE id = $1", id)
	if err == nil && len(list) == 0 {
		return Alert{}, fault.New(fault.NotFound, "This alert does not exist.")
	}
	if err != nil {
		return Alert{}, err
	}
	return list[0], nil
}

// KeptRequest is a request that was kept for tuning.
type KeptRequest struct {
	Method        string        `json:"method" doc:"Its method."`
	URI           string        `json:"uri" doc:"What was asked for."`
	Version       string        `json:"version" doc:"Version of HTTP."`
	Headers       []HeaderField `json:"headers" doc:"Its headers, in their order."`
	Body          string        `json:"body" doc:"Beginning of its body. What is not text is shown as the replacement character."`
	BodyTruncated bool          `json:"body_truncated" doc:"The body went on."`
	Masked        bool          `json:"masked" doc:"Secrets in it were replaced by [masked]."`

	body []byte
}

type HeaderField struct {
	Name  string `json:"name" doc:"Its name."`
	Value string `json:"value" doc:"Its value."`
}

// kept returns the request of a record; nil if it was not kept.
func (r *Room) kept(ctx context.Context, q db.Querier, request string) (*KeptRequest, error) {
	var k KeptRequest
	err := q.QueryRow(ctx, `SELECT method, uri, version, headers, body, body_truncated, masked FROM waf_requests WHERE request_id = $1`, request).
		Scan(&k.Method, &k.URI, &k.Version, &k.Headers, &k.body, &k.BodyTruncated, &k.Masked)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	k.Body = strings.ToValidUTF8(string(k.body), "\ufffd")
	return &k, nil
}

// AlertDetail is a record with everything known about its request.
type AlertDetail struct {
	Alert
	Request *KeptRequest `json:"request" doc:"The request; null if it was not kept."`
	Records []Alert      `json:"records" doc:"All records of the request, this one included."`
}

// Purged is the result of a purge.
type Purged struct {
	Deleted int64 `json:"deleted" doc:"Number of deleted records."`
}

func (r *Room) mountAlerts() {
	httpd.Handle(r.Router, http.MethodGet, "/waf/alerts", httpd.Read, tag.Doc("waf.alert.list", "WAF alerts that match, newest first"),
		func(c *httpd.Call, in AlertFilter) ([]Alert, error) { return r.alerts(c, r.DB, in) })
	httpd.Handle(r.Router, http.MethodGet, "/waf/alerts/{id}", httpd.Read, tag.Doc("waf.alert.get", "One WAF alert with its request"),
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the record."`
		}) (AlertDetail, error) {
			return r.detail(c, in.ID)
		})
	purge := tag.Doc("waf.alert.purge", "Delete WAF alerts and the requests stored with them")
	purge.Audit = "waf.alert.purge"
	httpd.Handle(r.Router, http.MethodDelete, "/waf/alerts", httpd.Write.Here(), purge,
		func(c *httpd.Call, in struct {
			Before time.Time `query:"before" doc:"Only older ones; all by default."`
		}) (Purged, error) {
			return r.purge(c, in.Before)
		})
	httpd.Stream(r.Router, "/waf/alerts/live", httpd.Read, tag.Doc("waf.alert.live", "The newest WAF alerts that match, oldest first, and then each new one"),
		func(ctx context.Context, in liveFilter, send func(Alert) error) error {
			f := AlertFilter(in)
			f.Limit = cmp.Or(f.Limit, liveAlerts)
			return r.live.Some(ctx, func(ctx context.Context) ([]Alert, error) { return r.alerts(ctx, r.DB, f) }, func(a Alert) bool { return f.takes(&a) }, send)
		})
}

func (r *Room) detail(ctx context.Context, id uuid.UUID) (d AlertDetail, err error) {
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		if d.Alert, err = r.alert(ctx, tx, id); err != nil {
			return err
		}
		if d.Request, err = r.kept(ctx, tx, d.RequestID); err != nil {
			return err
		}
		if d.RequestID == "" {
			d.Records = []Alert{d.Alert}
			return nil
		}
		d.Records, err = read[Alert](ctx, tx, selectAlerts+" WHERE request_id = $1 ORDER BY id LIMIT $2", d.RequestID, mostAlerts)
		return err
	})
	return d, err
}

func (r *Room) purge(ctx context.Context, before time.Time) (p Purged, err error) {
	err = r.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`DELETE FROM waf_requests WHERE $1::timestamptz IS NULL OR created_at < $1`, absent(before))
		tag, err := tx.Exec(ctx, `DELETE FROM waf_alerts WHERE $1::timestamptz IS NULL OR created_at < $1`, absent(before))
		if err != nil {
			return err
		}
		p.Deleted = tag.RowsAffected()
		return r.Audit.Write(ctx, tx, "waf.alert.purge", fmt.Sprintf("%d alerts", p.Deleted), map[string]any{"before": absent(before)})
	})
	return p, err
}

const (
	// channel is where the database announces records: their ids separated by commas, or nothing if there are many.
	channel = "waf_alerts"
	// recently is how far back to look for records if there are many.
	recently = time.Minute
)

// announced returns the records of an announcement, oldest first.
func (r *Room) announced(ctx context.Context, payload string) ([]Alert, error) {
	if payload == "" {
		list, err := r.alerts(ctx, r.DB, AlertFilter{Since: r.Clock.Now().Add(-recently), Limit: mostAlerts})
		slices.Reverse(list)
		return list, err
	}
	var ids []uuid.UUID
	for text := range strings.SplitSeq(payload, ",") {
		if id, err := uuid.Parse(text); err == nil {
			ids = append(ids, id)
		}
	}
	return read[Alert](ctx, r.DB, selectAlerts+" WHERE id = ANY ($1) ORDER BY id", ids)
}

// Limits on the age and the number of records, and of requests.
const (
	alertsFor, alertsMost     = 30 * 24 * time.Hour, 100_000
	requestsFor, requestsMost = 7 * 24 * time.Hour, 5_000
	// gapsMost limits the records of uninspected requests separately: an outage must not displace earlier findings.
	gapsMost = 10_000
)

// Prune deletes records beyond the limits, and returns how many.
func Prune(ctx context.Context, d *db.DB, c clock.Clock) (n int64, err error) {
	err = d.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("SET LOCAL statement_timeout = 0") // deleting many rows takes long
		tx.Queue(`DELETE FROM waf_requests WHERE created_at < $1 OR request_id IN (SELECT request_id FROM waf_requests ORDER BY created_at DESC, request_id DESC OFFSET $2)`,
			c.Now().Add(-requestsFor), requestsMost)
		tag, err := tx.Exec(ctx, `DELETE FROM waf_alerts WHERE created_at < $1
			OR id IN (SELECT id FROM waf_alerts WHERE action <> $3 ORDER BY id DESC OFFSET $2)
			OR id IN (SELECT id FROM waf_alerts WHERE action = $3 ORDER BY id DESC OFFSET $4)`, c.Now().Add(-alertsFor), alertsMost, unavailable, gapsMost)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}
