// Package fault owns the kinds of error that may leave the process, and the one table from kind to HTTP status.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Kind says what went wrong in the eyes of the caller. The zero value is an internal error, so that an error nobody
// classified is never shown.
type Kind int

// The kinds, with the code that the envelope carries.
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

// Code is the stable word of the kind.
func (k Kind) Code() string { return kinds[k].code }

func (k Kind) Status() int { return kinds[k].status }

// KindOf finds the kind of a code, as another gateway has answered it.
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
	// Fields maps a JSON field path to a sentence a person can act on.
	Fields map[string]string
	// Details is further data for the caller, such as what depends on a row.
	Details any
	// RetryAfter is when a refused caller may try again.
	RetryAfter time.Duration
	// Cause is logged and never shown.
	Cause error
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return strings.TrimSuffix(e.Message, ".") + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// New makes an error with a message for the caller.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an error with a message for the caller and a cause for the log.
func Wrap(k Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// Field is the error of one bad field.
func Field(name, format string, args ...any) *Error {
	return Fields(map[string]string{name: fmt.Sprintf(format, args...)})
}

// Fields is the error of several bad fields at once.
func Fields(fields map[string]string) *Error {
	return &Error{Kind: Invalid, Message: "Some fields are not valid.", Fields: fields}
}

// Taken is the error of fields that have what another row has already.
func Taken(fields map[string]string) *Error {
	return &Error{Kind: Conflict, Message: "This already exists.", Fields: fields}
}

var (
	withoutSubject = regexp.MustCompile(`^(already|applies|are|belongs|cannot|contains|differs|does|has|is|makes|must|needs|overlaps|serves|was)\b`)
	withoutCapital = regexp.MustCompile(`^(certificate|item|line) \d`)
	withStop       = regexp.MustCompile(`[.!?:…]["')]?$`)
)

// Complaint is what a check says about a field as a sentence: "must be a number" becomes "This field must be a number."
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

// From finds the fault in an error chain; whatever is none becomes an internal one.
func From(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	return &Error{Kind: Internal, Message: "Internal error. See the log of the gateway.", Cause: err}
}

// Is tells whether an error is a fault of the kind.
func Is(err error, k Kind) bool {
	f, ok := errors.AsType[*Error](err)
	return ok && f.Kind == k
}
