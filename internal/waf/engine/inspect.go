package engine

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/corazawaf/coraza/v3/types"
	"github.com/corazawaf/coraza/v3/types/variables"
)

// transaction is the part of Coraza's transactions beyond their public interface.
type transaction interface {
	types.Transaction
	Variables() plugintypes.TransactionVariables
	RemoveRuleByID(id int)
	RemoveRuleByIDRange(first, last int)
	RemoveRuleTargetByID(id int, variable variables.RuleVariable, key string, keyRx *regexp.Regexp)
	DetectionOnlyInterruption() *types.Interruption
}

// Rules of Coraza's own settings that refuse a body that does not parse, as the beginning of a body never does.
const bodyDoesNotParse, multipartIsBroken = 200002, 200003

// levels are the texts of the paranoia levels.
var levels = [...]string{1: "1", 2: "2", 3: "3", 4: "4"}

// transact runs a transaction. Whatever happens in do, the result is a verdict or an error.
func (e *engine) transact(ctx context.Context, r *Request, with Settings, do func(tx transaction, v *Verdict) (*types.Interruption, error)) (v Verdict, err error) {
	if with.Paranoia < 1 || with.Paranoia >= len(levels) {
		return Verdict{}, fmt.Errorf("waf: there is no paranoia level %d", with.Paranoia)
	}
	if err := ctx.Err(); err != nil {
		return Verdict{}, err
	}
	tx := e.waf.NewTransactionWithID(r.ID).(transaction)
	defer func() {
		if p := recover(); p != nil {
			v, err = Verdict{}, fmt.Errorf("waf: the engine failed: %v\n%s", p, debug.Stack())
		}
	}()
	// Without it, uploaded files would be left behind.
	defer func() {
		if e := tx.Close(); e != nil && err == nil {
			v, err = Verdict{}, fmt.Errorf("waf: %w", e)
		}
	}()

	level := levels[with.Paranoia]
	state := tx.Variables().TX()
	state.Set("blocking_paranoia_level", []string{level})
	state.Set("detection_paranoia_level", []string{level})
	if !with.Blocking {
		state.Set(detecting, []string{"1"})
	}
	exclude(tx, r.URI, with.Exclusions)

	tx.ProcessConnection(r.Source.Addr().String(), int(r.Source.Port()), r.Destination.Addr().String(), int(r.Destination.Port()))
	tx.ProcessURI(r.URI, r.Method, protocol(r.Version))
	for i := range r.Header {
		f := &r.Header[i]
		tx.AddRequestHeader(f.Name, f.Value)
		if strings.EqualFold(f.Name, "host") {
			tx.SetServerName(serverName(f.Value))
		}
	}
	denied, err := do(tx, &v)
	if err == nil {
		err = ctx.Err()
	} else {
		err = fmt.Errorf("waf: %w", err)
	}
	if err != nil {
		return Verdict{}, err
	}

	// Any interruption means that the request must not be passed on.
	v.Deny = denied != nil
	if denied == nil {
		denied = tx.DetectionOnlyInterruption()
	}
	if denied != nil {
		v.Rule = denied.RuleID
	}
	v.Matches = matches(tx.MatchedRules(), v.Rule)
	return v, nil
}

// score returns the total score of the matched rules.
func score(tx transaction, name string) (sum int) {
	if text := tx.Variables().TX().Get(name); len(text) > 0 {
		sum, _ = strconv.Atoi(text[0])
	}
	return sum
}

func (e *engine) inspect(ctx context.Context, r *Request, with Settings) (Verdict, error) {
	return e.transact(ctx, r, with, func(tx transaction, v *Verdict) (denied *types.Interruption, err error) {
		body := r.Body
		limit := bodyLimit
		if with.MaxBody > 0 {
			limit = min(limit, with.MaxBody)
		}
		if len(body) > limit {
			body = body[:limit]
		}
		if v.Partial = !r.Complete || len(body) < len(r.Body); v.Partial {
			tx.RemoveRuleByID(bodyDoesNotParse)
			tx.RemoveRuleByID(multipartIsBroken)
			body = finish(body, r.Header)
		}
		if denied = tx.ProcessRequestHeaders(); denied == nil && ctx.Err() == nil {
			if denied, _, err = tx.WriteRequestBody(body); err == nil && denied == nil {
				denied, err = tx.ProcessRequestBody()
			}
		}
		v.Score = score(tx, "blocking_inbound_anomaly_score")
		return denied, err
	})
}

func (e *engine) inspectResponse(ctx context.Context, r *Request, res *Response, with Settings) (Verdict, error) {
	return e.transact(ctx, r, with, func(tx transaction, v *Verdict) (denied *types.Interruption, err error) {
		v.Response = true
		body := res.Body[:min(len(res.Body), bodyLimit)]
		v.Partial = !res.Complete || len(body) < len(res.Body)
		tx.ProcessRequestHeaders() // sets the rules up
		for _, f := range res.Header {
			tx.AddResponseHeader(f.Name, f.Value)
		}
		if denied = tx.ProcessResponseHeaders(res.Status, protocol(res.Version)); denied == nil && tx.IsResponseBodyProcessable() {
			if denied, _, err = tx.WriteResponseBody(body); err == nil && denied == nil {
				denied, err = tx.ProcessResponseBody()
			}
		}
		v.Score = score(tx, "blocking_outbound_anomaly_score")
		return denied, err
	})
}

// finish completes the beginning of a JSON text, because the engine ignores an unterminated string, which might be the interesting one.
// The engine reads the beginnings of other bodies as far as they go.
func finish(body []byte, header []Field) []byte {
	if !slices.ContainsFunc(header, func(f Field) bool {
		return strings.EqualFold(f.Name, "content-type") && strings.Contains(strings.ToLower(f.Value), "json")
	}) {
		return body
	}
	var open []byte
	quoted, escaped := false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			open = append(open, '}')
		case c == '[':
			open = append(open, ']')
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	if escaped {
		body = body[:len(body)-1]
	}
	whole := make([]byte, 0, len(body)+1+len(open))
	whole = append(whole, body...)
	if quoted {
		whole = append(whole, '"')
	}
	slices.Reverse(open)
	return append(whole, open...)
}

func protocol(version string) string {
	switch version {
	case "":
		return "HTTP/0.9"
	case "1.1":
		return "HTTP/1.1"
	case "2.0":
		return "HTTP/2.0"
	}
	if strings.HasPrefix(version, "HTTP/") {
		return version
	}
	return "HTTP/" + version
}

func serverName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}
