// Package longtest distinguishes the long test run (make test-long, -tags long) from the short one (make test). Tests that only
// the long run includes are in files with that build tag; this package is for tests that run fewer cases in the short one.
package longtest

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Some returns the whole list in the long run, and n random items in their order in the short one. The test logs the seed;
// GATEWAY_SEED sets it.
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

// Number returns how many cases a test runs: short in the short run, long in the long one, or what the environment variable says.
func Number(t testing.TB, variable string, short, long int) int {
	t.Helper()
	text := os.Getenv(variable)
	switch {
	case text == "" && On:
		return long
	case text == "":
		return short
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// Seed returns GATEWAY_SEED, or usual if it is not set, and logs it.
func Seed(t testing.TB, usual uint64) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("GATEWAY_SEED"), 10, 64)
	if err != nil {
		seed = usual
	}
	t.Logf("GATEWAY_SEED=%d", seed)
	return seed
}
