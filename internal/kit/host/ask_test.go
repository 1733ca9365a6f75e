package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// Of many who ask the same at once one asks the machine, and all get its answer; those who come soon after get it, too.
func TestQuestionIsAskedOnce(t *testing.T) {
	q := NewQuestion[int32]()
	var asked atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	ask := func(context.Context) (int32, error) {
		n := asked.Add(1)
		if n == 1 {
			close(begun)
			<-goOn
		}
		return n, nil
	}
	var all sync.WaitGroup
	answers := make(chan int32, 100)
	one := func() {
		if n, err := q.Ask(t.Context(), "same", ask); err != nil {
			t.Error(err)
		} else {
			answers <- n
		}
	}
	all.Go(one)
	<-begun
	for range cap(answers) - 1 {
		all.Go(one)
	}
	close(goOn)
	all.Wait()
	for range cap(answers) {
		if n := <-answers; n != 1 {
			t.Fatalf("the answer is %d", n)
		}
	}
	if n, err := q.Ask(t.Context(), "same", ask); n != 1 || err != nil {
		t.Error("it is asked again at once", n, err)
	}
	if n, err := q.Ask(t.Context(), "another", ask); n != 2 || err != nil {
		t.Error("another question has the same answer", n, err)
	}
	q.Forget()
	if n, err := q.Ask(t.Context(), "same", ask); n != 3 || err != nil {
		t.Error("an answer that is out of date", n, err)
	}
}

// While the machine does not answer, one question runs, everyone is told in time, and what was asked is there for those who ask again.
func TestQuestionThatTakesLong(t *testing.T) {
	q := NewQuestion[string]()
	var running, most atomic.Int32
	let := make(chan struct{})
	ask := func(context.Context) (string, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		<-let
		return "late", nil
	}
	var all sync.WaitGroup
	for _, same := range []string{"a", "a", "b", "c", "c", "d"} {
		all.Go(func() {
			if _, err := q.Ask(t.Context(), same, ask); !errors.Is(err, ErrTooLate) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	close(let)
	if most.Load() != 1 {
		t.Errorf("%d questions at once", most.Load())
	}
	if said, err := q.Ask(t.Context(), "a", ask); err != nil || said != "late" {
		t.Error(said, err)
	}
}

// TestAskDoesNotHang: who asks gets an answer, be it that there is none.
func TestAskDoesNotHang(t *testing.T) {
	if n, err := Ask(t.Context(), func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	refused := errors.New("no")
	if _, err := Ask(t.Context(), func(context.Context) (int, error) { return 0, refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	for range 2 {
		// Nothing ends it but the end of the test.
		if _, err := Ask(t.Context(), func(context.Context) (int, error) { <-t.Context().Done(); return 0, nil }); !errors.Is(err, ErrTooLate) {
			t.Error(err)
		}
	}
}
