package squid

import (
	"testing"

	"go.uber.org/goleak"

	"edge.internal/gateway/internal/kit/host/nettest"
)

func TestMain(m *testing.M) {
	nettest.Enter()
	goleak.VerifyTestMain(m)
}
