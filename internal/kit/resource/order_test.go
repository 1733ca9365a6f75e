package resource_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

// A list that is amended row by row has the rows that are stored, in their order. Rows in another order are found as well.
func TestAmended(t *testing.T) {
	kind := toys()
	kind.Mount(kittest.New(t).Resources)
	chance := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	toy := func() *Toy {
		return &Toy{Meta: resource.Meta{ID: uuid.New(), CreatedAt: start.Add(time.Duration(chance.IntN(4)) * time.Microsecond)}, Priority: chance.IntN(5)}
	}
	inOrder := func(a, b *Toy) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.CreatedAt.Compare(b.CreatedAt), slices.Compare(a.ID[:], b.ID[:]))
	}
	same := func(a, b *Toy) bool { return a.ID == b.ID && a.Priority == b.Priority }
	var list []*Toy
	for range 500 {
		want := slices.Clone(list)
		var row apply.Row
		if len(list) > 0 && chance.IntN(3) > 0 {
			at := chance.IntN(len(list))
			row.Was = list[at]
			want = slices.Delete(want, at, at+1)
		}
		if row.Was == nil || chance.IntN(2) == 0 {
			now := toy()
			if was, ok := row.Was.(*Toy); ok {
				now.Meta = was.Meta
			}
			row.Now = now
			want = append(want, now)
		}
		slices.SortFunc(want, inOrder)
		if list = kind.Amended(list, row); !slices.EqualFunc(list, want, same) {
			t.Fatalf("%+v: %d rows, and not %d in order", row, len(list), len(want))
		}
		if was, ok := row.Was.(*Toy); ok && row.Now == nil {
			backwards := append(slices.Clone(want), was)
			slices.SortFunc(backwards, func(a, b *Toy) int { return inOrder(b, a) })
			slices.Reverse(want)
			if got := kind.Amended(backwards, row); !slices.EqualFunc(got, want, same) {
				t.Fatalf("%d rows in another order, and not %d", len(got), len(want))
			}
		}
	}
}
