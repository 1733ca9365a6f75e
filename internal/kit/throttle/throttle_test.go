package throttle

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"

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
		a, err := x.Begin(account, Address(from))
		if err != nil {
			t.Fatalf("guess %d: %v", i+1, err)
		}
		last = a
	}
	return last
}

func refused(t *testing.T, x *Throttle, account string, from netip.Addr) time.Duration {
	t.Helper()
	_, err := x.Begin(account, Address(from))
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

// The holder of a /56 or a /48 may choose another /64 for each guess: the wider networks are counted too.
func TestRotationInAnIPv6NetworkIsBounded(t *testing.T) {
	let := func(address func(i int) netip.Addr) (through int) {
		_, x := start()
		for i := range 1000 {
			if _, err := x.Begin("a", Address(address(i))); err == nil {
				through++
			}
		}
		if err := x.Allow("a", Address(netip.MustParseAddr("2001:db8:1::1"))); err != nil {
			t.Errorf("another network is refused: %v", err)
		}
		return through
	}
	if n := let(func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i%256)) }); n != 4*Guessing.Pair {
		t.Errorf("%d guesses from a /56", n)
	}
	if n := let(func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i*64)) }); n != 16*Guessing.Pair {
		t.Errorf("%d guesses from a /48", n)
	}
}

// A success clears the failures of its own source, and not those of others in the same network.
func TestSuccessIsOfOneSource(t *testing.T) {
	_, x := start()
	for i := range 16 {
		guess(t, x, Guessing.Pair-1, "a", netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x00::1", i)))
	}
	guess(t, x, 1, "a", netip.MustParseAddr("2001:db8:0:ff00::1")).Succeeded()
	guess(t, x, 10, "a", netip.MustParseAddr("2001:db8:0:fe00::1"))
	guess(t, x, 6, "a", netip.MustParseAddr("2001:db8:0:fd00::1"))
	refused(t, x, "a", netip.MustParseAddr("2001:db8:0:fc00::1"))
}

func TestDeviceIsCountedApart(t *testing.T) {
	_, x := start()
	device := Device(uuid.New())
	for i := range 50 {
		guess(t, x, 1, fmt.Sprint(i), here)
	}
	refused(t, x, "a", here)
	for range Guessing.Pair {
		if _, err := x.Begin("a", device); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.Begin("a", device); !fault.Is(err, fault.TooMany) {
		t.Errorf("the device guesses on: %v", err)
	}
	if err := x.Allow("a", Device(uuid.New())); err != nil {
		t.Errorf("another device: %v", err)
	}
}

// The first refusal within the window is marked, for an account and for a source as a whole.
func TestFirstRefusalIsMarked(t *testing.T) {
	c, x := start()
	first := func(account string) bool {
		t.Helper()
		_, err := x.Begin(account, Address(here))
		r, ok := errors.AsType[*Refusal](err)
		if !ok || !fault.Is(err, fault.TooMany) {
			t.Fatalf("%v", err)
		}
		return r.First
	}
	guess(t, x, Guessing.Pair, "a", here)
	if !first("a") || first("a") {
		t.Error("the first refusal of the account is not marked once")
	}
	for i := range Guessing.Source - Guessing.Pair {
		guess(t, x, 1, fmt.Sprint(i), here)
	}
	if !first("b") || first("c") || first("a") {
		t.Error("the first refusal of the source is not marked once")
	}
	c.Move(Guessing.Within)
	guess(t, x, Guessing.Pair, "a", here)
	if !first("a") {
		t.Error("the first refusal of the next window is not marked")
	}
}

func TestKnownIsWhoHasSucceeded(t *testing.T) {
	_, x := start()
	attempt := guess(t, x, 1, "a", here)
	if x.Known(Address(here)) {
		t.Error("an attempt is enough")
	}
	attempt.Succeeded()
	if !x.Known(Address(here)) || x.Known(Address(there)) {
		t.Error("the wrong source is known")
	}
	for i := range 2 * maxSources {
		guess(t, x, 1, "a", netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})).Succeeded()
	}
	if len(x.known) != maxSources {
		t.Errorf("%d are known", len(x.known))
	}
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
	if n := len(x.counts); n != maxSources {
		t.Errorf("%d sources", n)
	}
	if _, kept := x.counts["10.0.0.0/32"]; kept {
		t.Error("the oldest was kept")
	}
}
