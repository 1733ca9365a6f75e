// Package longtest tells the long test run (make test-long, -tags long) from the short one (make test). What only the long one runs stands in
// files with that build tag; what is a matter of how many asks this package.
package longtest

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Some is the whole list in a long run. In a short one it is n of it, in their order, drawn by a seed that the test prints: GATEWAY_SEED repeats it.
func Some[T any](t testing.TB, n int, all []T) []T {
	t.Helper()
	if On || n >= len(all) {
		return all
	}
	seed := Seed(t, uint64(time.Now().UnixNano()))
	t.Logf("%d of %d, all with -tags long", n, len(all))
	drawn := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:n]
	slices.Sort(drawn)
	some := make([]T, 0, n)
	for _, i := range drawn {
		some = append(some, all[i])
	}
	return some
}

// Seed is what GATEWAY_SEED names, and otherwise the usual one. The test prints it.
func Seed(t testing.TB, usual uint64) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("GATEWAY_SEED"), 10, 64)
	if err != nil {
		seed = usual
	}
	t.Logf("GATEWAY_SEED=%d", seed)
	return seed
}
