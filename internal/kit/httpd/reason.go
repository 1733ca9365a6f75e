package httpd

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/fault"
)

const (
	// ReasonHeader says why something is changed. Its text is percent-encoded UTF-8, because headers are ASCII.
	ReasonHeader = "Gateway-Reason"
	// ChangeSetHeader is the id of the change set that a request has made.
	ChangeSetHeader = "Gateway-Change-Set"
	maxReason       = 500
	// ConfirmWithinHeader is the number of seconds in which a change must be confirmed before it is reverted; ConfirmByHeader in
	// the answer is the deadline.
	ConfirmWithinHeader = "Gateway-Confirm-Within"
	ConfirmByHeader     = "Gateway-Confirm-By"
)

// MinConfirm and MaxConfirm limit the time to confirm a change.
const MinConfirm, MaxConfirm = 10 * time.Second, 600 * time.Second

// ConfirmWithin validates the time to confirm a change.
func ConfirmWithin(field string, seconds int) (time.Duration, error) {
	within := time.Duration(seconds) * time.Second
	if within < MinConfirm || within > MaxConfirm {
		return 0, fault.Field(field, "must be between %d and %d seconds", MinConfirm/time.Second, MaxConfirm/time.Second)
	}
	return within, nil
}

// intent reads what a request says about its changes, which become one change set.
func intent(req *http.Request) (i changes.Intent, err error) {
	if i.Set, err = uuid.NewV7(); err != nil {
		return i, err
	}
	reason, err := url.PathUnescape(req.Header.Get(ReasonHeader))
	switch {
	case err != nil || !utf8.ValidString(reason):
		return i, fault.Field(ReasonHeader, "must be percent-encoded UTF-8")
	case len(reason) > maxReason:
		return i, fault.Field(ReasonHeader, "must have at most %d bytes", maxReason)
	case strings.ContainsFunc(reason, unicode.IsControl):
		return i, fault.Field(ReasonHeader, "must not contain control characters")
	}
	i.Reason = strings.TrimSpace(reason)
	if text := req.Header.Get(ConfirmWithinHeader); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			return i, fault.Field(ConfirmWithinHeader, "must be a whole number")
		}
		if i.Within, err = ConfirmWithin(ConfirmWithinHeader, seconds); err != nil {
			return i, err
		}
	}
	return i, nil
}
