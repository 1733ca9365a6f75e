package certificate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-acme/lego/v5/acme"

	"edge.internal/gateway/internal/kit/outbound"
)

// Kinds of failure. The first ones explain the others.
const (
	failedRateLimit  = "rate_limit"
	failedAccount    = "account"
	failedCAA        = "caa"
	failedDNS        = "dns"
	failedConnection = "connection"
	failedRefused    = "refused"
	failedOther      = "other"
	failedNotLive    = "not_live"
)

var weight = []string{failedRateLimit, failedAccount, failedCAA, failedDNS, failedConnection, failedRefused, failedOther}

// failure explains to the operator why an order failed.
type failure struct {
	kind     string
	sentence string
	// retryAfter is when the authority wants to be asked again, if it said so.
	retryAfter time.Duration
}

func (f *failure) Error() string { return f.sentence }

func failed(kind, format string, args ...any) *failure {
	return &failure{kind: kind, sentence: printable(fmt.Sprintf(format, args...))}
}

// explain determines why an order failed.
func explain(err error, challenge string) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	var worst *failure
	for _, p := range problems(err) {
		f := explainProblem(p, challenge)
		if worst == nil || slices.Index(weight, f.kind) < slices.Index(weight, worst.kind) {
			worst = f
		}
	}
	if worst != nil {
		if limited, ok := errors.AsType[*acme.RateLimitedError](err); ok {
			worst.retryAfter = limited.RetryAfter
		}
		return worst
	}
	if f := explainNetwork(err); f != nil {
		return f
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failed(failedOther, "the order did not finish within %s: the certificate authority or the name servers take too long", orderWithin)
	}
	return failed(failedOther, "the certificate authority did not answer as expected: %s", withoutBody(err))
}

// explainNetwork explains why there was no answer.
func explainNetwork(err error) *failure {
	if refused, ok := errors.AsType[*outbound.Refused](err); ok {
		return failed(failedAccount, "the certificate authority was not asked: %v", refused)
	}
	if asked, ok := errors.AsType[*url.Error](err); ok {
		return failed(failedAccount, "the certificate authority cannot be reached: %s", cause(asked.Err))
	}
	if lost, ok := errors.AsType[*net.OpError](err); ok {
		return failed(failedAccount, "the certificate authority cannot be reached: %v", lost)
	}
	return nil
}

// withoutBody strips a server's answer from an error, because it may contain anything.
func withoutBody(err error) string {
	text := err.Error()
	for _, mark := range []string{" body: ", " :: "} {
		text, _, _ = strings.Cut(text, mark)
	}
	return text
}

// problems returns every ACME problem in an error.
func problems(err error) []*acme.ProblemDetails {
	switch e := err.(type) { //nolint:errorlint // the walk visits every layer itself
	case *acme.ProblemDetails:
		return []*acme.ProblemDetails{e}
	case interface{ Unwrap() []error }:
		var list []*acme.ProblemDetails
		for _, inner := range e.Unwrap() {
			list = append(list, problems(inner)...)
		}
		return list
	case interface{ Unwrap() error }:
		return problems(e.Unwrap())
	}
	return nil
}

// explainProblem explains an ACME problem. A problem of a request carries its method; one of a challenge does not.
func explainProblem(p *acme.ProblemDetails, challenge string) *failure {
	detail := p.Detail
	for _, sub := range p.SubProblems {
		detail += fmt.Sprintf("; %s: %s", sub.Identifier.Value, sub.Detail)
	}
	kind := p.Type
	if len(p.SubProblems) > 0 && (kind == acme.CompoundErrorType || kind == acme.MalformedErrorType) {
		kind = p.SubProblems[0].Type
	}
	switch kind {
	case acme.RateLimitedErrorType:
		return failed(failedRateLimit, "the certificate authority accepts no more orders for now: %s", detail)
	case acme.CaaErrorType:
		return failed(failedCAA, "a CAA record of the domain does not allow this certificate authority. Add one that does, or remove the record: %s", detail)
	case acme.DNSErrorType:
		return failed(failedDNS, "the certificate authority could not resolve the name: %s", detail)
	case acme.ConnectionErrorType:
		return failed(failedConnection, "the certificate authority could not reach the gateway on port 80. The name must point here, and no firewall may block port 80: %s", detail)
	case acme.RejectedIdentifierErrorType, acme.UnsupportedIdentifierErrorType, acme.BadCSRErrorType, acme.MalformedErrorType, acme.InvalidProfileErrorType:
		return failed(failedRefused, "the certificate authority refused to issue this: %s", detail)
	case acme.AccountDoesNotExistErrorType, acme.ExternalAccountRequiredErrorType, acme.InvalidContactErrorType, acme.UnsupportedContactErrorType,
		acme.UserActionRequiredErrorType, acme.BadPublicKeyErrorType, acme.BadSignatureAlgorithmErrorType:
		return failed(failedAccount, "the certificate authority does not accept the account: %s", detail)
	case acme.UnauthorizedErrorType, acme.IncorrectResponseErrorType, acme.TLSErrorType:
		switch {
		case p.Method != "":
			return failed(failedAccount, "the certificate authority does not accept the account: %s", detail)
		case challenge == challengeDNS:
			return failed(failedDNS, "the certificate authority found a different DNS record than the one that was set: %s", detail)
		}
		return failed(failedConnection, "the certificate authority reached a different server, or something in between changed the answer: %s", detail)
	}
	return failed(failedOther, "the certificate authority says: %s", detail)
}

// patience lists the pauses after one failure, two, and so on. Certificate authorities lock out clients that fail five times in an hour.
var patience = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour}

// wait returns how long to wait after so many failures.
func (f *failure) wait(attempts int) time.Duration {
	d := patience[min(attempts, len(patience))-1]
	if f.kind == failedRateLimit {
		d = max(d, time.Hour)
	}
	return max(d, f.retryAfter)
}
