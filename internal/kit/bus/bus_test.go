package bus_test

import (
	"testing"

	"edge.internal/gateway/internal/kit/bus"
)

func TestSlowReaderLosesEventsAndNobodyWaits(t *testing.T) {
	var topic bus.Topic[int]
	slow, quick := topic.Subscribe(), topic.Subscribe()
	for i := range bus.Buffer + 5 {
		topic.Publish(i)
		if got := <-quick.C; got != i {
			t.Fatalf("the quick reader got %d instead of %d", got, i)
		}
	}
	if slow.Dropped() != 5 || quick.Dropped() != 0 {
		t.Fatalf("dropped %d and %d", slow.Dropped(), quick.Dropped())
	}
	for i := range bus.Buffer {
		if got := <-slow.C; got != i {
			t.Fatalf("the slow reader got %d instead of %d", got, i)
		}
	}
	slow.Close()
	topic.Publish(1)
	if len(slow.C) != 0 {
		t.Fatal("a closed reader gets events")
	}
}
