package fault_test

import (
	"errors"
	"testing"

	"edge.internal/gateway/internal/kit/fault"
)

func TestComplaintsAreSentences(t *testing.T) {
	for text, want := range map[string]string{
		"must be an IPv4 or IPv6 address":            "This field must be an IPv4 or IPv6 address.",
		"is required":                                "This field is required.",
		"cannot be changed. Create another target":   "This field cannot be changed. Create another target.",
		"item 2 must not be empty":                   "Item 2 must not be empty.",
		"Interface wg0 does not exist.":              "Interface wg0 does not exist.",
		"fd00::/8 does not fit the family":           "fd00::/8 does not fit the family.",
		"island is a name, and no verb begins it":    "island is a name, and no verb begins it.",
		`must be days, for example "MTWHF" (Monday)`: `This field must be days, for example "MTWHF" (Monday).`,
	} {
		if got := fault.Complaint(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if got := fault.Wrap(fault.Invalid, errors.New("EOF"), "The body ended early.").Error(); got != "The body ended early: EOF" {
		t.Error(got)
	}
}
