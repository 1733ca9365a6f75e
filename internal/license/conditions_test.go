package license

import (
	"testing"

	"edge.internal/gateway/internal/kit/watch/watchtest"
)

func TestAL06License(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, Check)
	w.Answers["/license"] = Record{Status: Trial}
	w.Want(t)
	w.Answers["/license"] = Record{Status: Invalid, Reason: "Its signature is wrong."}
	w.Want(t, "license.invalid error")
	w.Answers["/license"] = Record{Status: Active}
	w.Want(t)
}
