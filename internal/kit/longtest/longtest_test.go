package longtest_test

import (
	"slices"
	"testing"

	"edge.internal/gateway/internal/kit/longtest"
)

func TestSome(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e", "f"}
	if longtest.On {
		if some := longtest.Some(t, 2, all); !slices.Equal(some, all) {
			t.Errorf("a long run leaves out some: %q", some)
		}
		return
	}
	t.Setenv("GATEWAY_SEED", "7")
	some := longtest.Some(t, 2, all)
	if len(some) != 2 || some[0] >= some[1] || !slices.Equal(some, longtest.Some(t, 2, all)) {
		t.Errorf("%q", some)
	}
	if whole := longtest.Some(t, 9, all); !slices.Equal(whole, all) {
		t.Errorf("%q", whole)
	}
}
