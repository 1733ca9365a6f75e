package probe

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"edge.internal/gateway/internal/kit/host/nettest"
)

// apart makes the test binary look at the network as gateway-probe does, and say how that went.
const apart = "PROBE_TEST_APART"

func TestMain(m *testing.M) {
	if os.Getenv(apart) != "" { // it has the network of the process that started it
		if err := lookApart(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	nettest.Enter()
	goleak.VerifyTestMain(m)
}
