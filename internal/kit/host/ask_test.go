package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// One of many concurrent callers with the same key does the work, and all get its answer. So do callers shortly afterwards.
func TestQuestionSharesAnswers(t *testing.T) {
	q := NewQuestion[int32]()
	var asked atomic.Int32
	started, release := make(chan struct{}), make(chan struct{})
	ask := func(context.Context) (int32, error) {
		n := asked.Add(1)
		if n == 1 {
			close(started)
			<-release
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
	<-started
	for range cap(answers) - 1 {
		all.Go(one)
	}
	close(release)
	all.Wait()
	for range cap(answers) {
		if n := <-answers; n != 1 {
			t.Fatalf("the answer is %d", n)
		}
	}
	if n, err := q.Ask(t.Context(), "same", ask); n != 1 || err != nil {
		t.Error("the same question was asked again", n, err)
	}
	if n, err := q.Ask(t.Context(), "another", ask); n != 2 || err != nil {
		t.Error("another question got the same answer", n, err)
	}
	q.Forget()
	if n, err := q.Ask(t.Context(), "same", ask); n != 3 || err != nil {
		t.Error("the answer is out of date", n, err)
	}
}

// While the machine hangs, only one call runs at a time, every caller gets its error in time, and the late answer is kept for the
// next caller.
func TestSlowQuestion(t *testing.T) {
	q := NewQuestion[string]()
	var running, most atomic.Int32
	release := make(chan struct{})
	ask := func(context.Context) (string, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		<-release
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
	close(release)
	if most.Load() != 1 {
		t.Errorf("%d questions at once", most.Load())
	}
	if answer, err := q.Ask(t.Context(), "a", ask); err != nil || answer != "late" {
		t.Error(answer, err)
	}
}

// Ask returns in time even if the function that it calls never does.
func TestAskDoesNotHang(t *testing.T) {
	if n, err := Ask(t.Context(), func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	refused := errors.New("no")
	if _, err := Ask(t.Context(), func(context.Context) (int, error) { return 0, refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	for range 2 {
		// It ignores its context and returns only when the test ends.
		if _, err := Ask(t.Context(), func(context.Context) (int, error) { <-t.Context().Done(); return 0, nil }); !errors.Is(err, ErrTooLate) {
			t.Error(err)
		}
	}
}
