// Package fault defines the errors that callers may see, and maps their kinds to HTTP status codes.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Kind says what went wrong from the caller's point of view. The zero value is an internal error, so that an unclassified error
// is never shown.
type Kind int

// Kinds of errors.
const (
	Internal Kind = iota
	Invalid
	Unauthenticated
	Forbidden
	NotFound
	MethodNotAllowed
	Conflict
	Stale
	TooLarge
	UnsupportedMedia
	TooMany
	NotSupported
	SetupRequired
	Unavailable
)

var kinds = [...]struct {
	code   string
	status int
}{
	Internal:         {"internal", http.StatusInternalServerError},
	Invalid:          {"validation_failed", http.StatusBadRequest},
	Unauthenticated:  {"unauthenticated", http.StatusUnauthorized},
	Forbidden:        {"forbidden", http.StatusForbidden},
	NotFound:         {"not_found", http.StatusNotFound},
	MethodNotAllowed: {"method_not_allowed", http.StatusMethodNotAllowed},
	Conflict:         {"conflict", http.StatusConflict},
	Stale:            {"stale", http.StatusPreconditionFailed},
	TooLarge:         {"too_large", http.StatusRequestEntityTooLarge},
	UnsupportedMedia: {"unsupported_media_type", http.StatusUnsupportedMediaType},
	TooMany:          {"too_many_requests", http.StatusTooManyRequests},
	NotSupported:     {"not_supported", http.StatusNotImplemented},
	SetupRequired:    {"setup_required", http.StatusServiceUnavailable},
	Unavailable:      {"unavailable", http.StatusServiceUnavailable},
}

// Code returns the stable code of the kind in the envelope.
func (k Kind) Code() string { return kinds[k].code }

func (k Kind) Status() int { return kinds[k].status }

// KindOf returns the kind of a code, as received from another gateway.
func KindOf(code string) (Kind, bool) {
	for k := range kinds {
		if kinds[k].code == code {
			return Kind(k), true
		}
	}
	return Internal, false
}

// Codes lists every code, for the documentation.
func Codes() []any {
	codes := make([]any, len(kinds))
	for i, k := range kinds {
		codes[i] = k.code
	}
	return codes
}

// Error is an error that the caller may see.
type Error struct {
	Kind    Kind
	Message string
	// Fields maps a JSON field path to a sentence that helps to correct it.
	Fields map[string]string
	// Details is further data for the caller, such as what depends on a row.
	Details any
	// RetryAfter is when a refused caller may try again.
	RetryAfter time.Duration
	// Cause is logged, but never shown.
	Cause error
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return strings.TrimSuffix(e.Message, ".") + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// New returns an error with a message for the caller.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an error with a message for the caller and a cause for the log.
func Wrap(k Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...), Cause: cause}
}

func Field(name, format string, args ...any) *Error {
	return Fields(map[string]string{name: fmt.Sprintf(format, args...)})
}

// Fields returns the error for several invalid fields.
func Fields(fields map[string]string) *Error {
	return &Error{Kind: Invalid, Message: "Some fields are not valid.", Fields: fields}
}

// Taken returns the error for fields with values that another row already has.
func Taken(fields map[string]string) *Error {
	return &Error{Kind: Conflict, Message: "This already exists.", Fields: fields}
}

var (
	withoutSubject = regexp.MustCompile(`^(already|applies|are|belongs|cannot|contains|differs|does|has|is|makes|must|needs|overlaps|serves|was)\b`)
	withoutCapital = regexp.MustCompile(`^(certificate|item|line) \d`)
	withStop       = regexp.MustCompile(`[.!?:…]["')]?$`)
)

// Complaint turns the result of a field's check into a sentence: "must be a number" becomes "This field must be a number."
func Complaint(text string) string {
	switch {
	case withoutSubject.MatchString(text):
		text = "This field " + text
	case withoutCapital.MatchString(text):
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if !withStop.MatchString(text) {
		text += "."
	}
	return text
}

// From returns the fault in an error chain, or an internal one if there is none.
func From(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	return &Error{Kind: Internal, Message: "Internal error. See the log of the gateway.", Cause: err}
}

func Is(err error, k Kind) bool {
	f, ok := errors.AsType[*Error](err)
	return ok && f.Kind == k
}
