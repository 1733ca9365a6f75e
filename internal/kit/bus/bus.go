// Package bus distributes events to readers within the process. A reader that is too slow loses events; a writer never blocks.
package bus

import "sync"

// Buffer is how many events a reader may be behind before it loses some.
const Buffer = 32

// Topic carries events of one type.
type Topic[E any] struct {
	mu      sync.Mutex
	readers map[*Reader[E]]struct{}
}

// Reader receives the events of a topic.
type Reader[E any] struct {
	C       <-chan E
	topic   *Topic[E]
	ch      chan E
	dropped int
}

// Subscribe returns a reader that receives every event published from now on.
func (t *Topic[E]) Subscribe() *Reader[E] {
	ch := make(chan E, Buffer)
	r := &Reader[E]{C: ch, ch: ch, topic: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readers == nil {
		t.readers = map[*Reader[E]]struct{}{}
	}
	t.readers[r] = struct{}{}
	return r
}

// Publish passes the event to every reader that has room.
func (t *Topic[E]) Publish(e E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.readers {
		select {
		case r.ch <- e:
		default:
			r.dropped++
		}
	}
}

func (r *Reader[E]) Close() {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	delete(r.topic.readers, r)
}

// Dropped returns how many events the reader lost.
func (r *Reader[E]) Dropped() int {
	r.topic.mu.Lock()
	defer r.topic.mu.Unlock()
	return r.dropped
}
