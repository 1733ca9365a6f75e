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
	// ReasonHeader says why something is changed. Its text is percent-encoded UTF-8, because a header has room for plain letters alone.
	ReasonHeader = "Gateway-Reason"
	// ChangeSetHeader names the change set that a request has made.
	ChangeSetHeader = "Gateway-Change-Set"
	maxReason       = 500
	// ConfirmWithinHeader is how many seconds there are to confirm a change, or it goes back; ConfirmByHeader answers until when.
	ConfirmWithinHeader = "Gateway-Confirm-Within"
	ConfirmByHeader     = "Gateway-Confirm-By"
)

// MinConfirm and MaxConfirm are how soon a change can have to be confirmed.
const MinConfirm, MaxConfirm = 10 * time.Second, 600 * time.Second

// ConfirmWithin is how soon a change is to be confirmed.
func ConfirmWithin(field string, seconds int) (time.Duration, error) {
	within := time.Duration(seconds) * time.Second
	if within < MinConfirm || within > MaxConfirm {
		return 0, fault.Field(field, "must be between %d and %d seconds", MinConfirm/time.Second, MaxConfirm/time.Second)
	}
	return within, nil
}

// intent is what a request says about the changes that it makes: they are one change set.
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
