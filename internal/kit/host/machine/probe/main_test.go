package probe

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"edge.internal/gateway/internal/kit/host/nettest"
)

// unprivileged makes the test binary run probes without root, as gateway-probe does, and report the result.
const unprivileged = "PROBE_TEST_UNPRIVILEGED"

func TestMain(m *testing.M) {
	if os.Getenv(unprivileged) != "" { // its parent has entered a network namespace
		if err := probeUnprivileged(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	nettest.Enter()
	goleak.VerifyTestMain(m)
}
