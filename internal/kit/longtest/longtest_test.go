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

func TestNumber(t *testing.T) {
	const variable = "GATEWAY_LONGTEST_NUMBER"
	usual := 2
	if longtest.On {
		usual = 3
	}
	if n := longtest.Number(t, variable, 2, 3); n != usual {
		t.Errorf("%d instead of %d", n, usual)
	}
	t.Setenv(variable, "7")
	if n := longtest.Number(t, variable, 2, 3); n != 7 {
		t.Errorf("%d instead of 7", n)
	}
}
