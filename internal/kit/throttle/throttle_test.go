package throttle

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/fault"
)

var (
	here  = netip.MustParseAddr("192.0.2.1")
	there = netip.MustParseAddr("192.0.2.2")
)

func start() (*clock.Fake, *Throttle) {
	c := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return c, New(c, Guessing)
}

func guess(t *testing.T, x *Throttle, n int, account string, from netip.Addr) *Attempt {
	t.Helper()
	var last *Attempt
	for i := range n {
		a, err := x.Begin(account, from)
		if err != nil {
			t.Fatalf("guess %d: %v", i+1, err)
		}
		last = a
	}
	return last
}

func refused(t *testing.T, x *Throttle, account string, from netip.Addr) time.Duration {
	t.Helper()
	_, err := x.Begin(account, from)
	if !fault.Is(err, fault.TooMany) {
		t.Fatalf("not refused: %v", err)
	}
	return fault.From(err).RetryAfter
}

func TestPairIsRefusedAndOthersAreNot(t *testing.T) {
	c, x := start()
	guess(t, x, 4, "a", here)
	c.Move(5 * time.Minute)
	guess(t, x, 6, "a", here)
	if wait := refused(t, x, "a", here); wait != 10*time.Minute {
		t.Errorf("retry after %v", wait)
	}
	guess(t, x, 1, "b", here)
	guess(t, x, 1, "a", there)
	c.Move(10 * time.Minute)
	guess(t, x, 4, "a", here)
	refused(t, x, "a", here)
}

func TestSourceIsRefusedWhateverTheAccount(t *testing.T) {
	_, x := start()
	for i := range 50 {
		guess(t, x, 1, fmt.Sprint(i), here)
	}
	refused(t, x, "new", here)
	guess(t, x, 1, "new", there)
}

func TestOneIPv6NetworkIsOneSource(t *testing.T) {
	_, x := start()
	for i := range 10 {
		guess(t, x, 1, "a", netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1)))
	}
	refused(t, x, "a", netip.MustParseAddr("2001:db8::ffff"))
	guess(t, x, 1, "a", netip.MustParseAddr("2001:db8:0:1::1"))
	guess(t, x, 10, "b", here)
	refused(t, x, "b", netip.MustParseAddr("::ffff:192.0.2.1"))
}

func TestSuccessClearsThePair(t *testing.T) {
	_, x := start()
	guess(t, x, 9, "b", here)
	guess(t, x, 10, "a", here).Succeeded()
	guess(t, x, 10, "a", here).Withdraw()
	guess(t, x, 1, "a", here)
	guess(t, x, 1, "b", here)
	refused(t, x, "b", here)
}

func TestMemoryIsBounded(t *testing.T) {
	c, x := start()
	for i := range maxSources + 100 {
		c.Move(time.Millisecond)
		guess(t, x, 1, "a", netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if n := len(x.attempts); n != maxSources {
		t.Errorf("%d sources", n)
	}
	if _, kept := x.attempts[netip.MustParseAddr("10.0.0.0")]; kept {
		t.Error("the oldest was kept")
	}
}
