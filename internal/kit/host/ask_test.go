package host

import (
	"context"
	"errors"
	"testing"
)

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
		if _, err := Ask(t.Context(), func(context.Context) (int, error) { <-t.Context().Done(); return 0, nil }); !errors.Is(err, errTooLate) {
			t.Error(err)
		}
	}
}
