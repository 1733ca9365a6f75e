package packaging

import (
	"context"
	"errors"
	"testing"
)

// take takes a place for a test of that name.
func take(t *testing.T, test string) (leave func()) {
	t.Helper()
	leave, err := Place(t.Context(), test)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

func TestThirdWaitsUntilOneLeaves(t *testing.T) {
	t.Setenv("GATEWAY_CACHE", t.TempDir())
	first, second := take(t, "TestFirst"), take(t, "TestSecond")
	defer second()

	// A caller that has given up does not block others.
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Place(impatient, "TestThird"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a third place: %v", err)
	}

	third := make(chan func())
	go func() {
		leave, err := Place(t.Context(), "TestThird")
		if err != nil {
			t.Error(err)
		}
		third <- leave
	}()
	select {
	case <-third:
		t.Fatal("there are three places")
	default:
	}
	first()
	(<-third)()
}

func TestPartsOfATestShareItsPlace(t *testing.T) {
	t.Setenv("GATEWAY_CACHE", t.TempDir())
	first, second := take(t, "TestFirst"), take(t, "TestSecond")
	again, part, partOfPart := take(t, "TestFirst"), take(t, "TestFirst/One"), take(t, "TestFirst/One/Two")
	for _, leave := range []func(){first, first, again, part} {
		leave()
	}

	// One of them still holds the place, so there is none for another test whose name merely begins like theirs.
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Place(impatient, "TestFirstOther"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a third place: %v", err)
	}
	partOfPart()
	take(t, "TestFirstOther")()
	second()
}
