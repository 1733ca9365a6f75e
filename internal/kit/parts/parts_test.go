package parts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func text(words ...string) (t Text) {
	for _, w := range words {
		t = append(t, Of([]byte(w)))
	}
	return t
}

// An edit leads from any text to any other with the same frame.
func TestChange(t *testing.T) {
	chance := rand.New(rand.NewPCG(5, 6))
	words := func(n int) []string {
		list := []string{"("}
		for range chance.IntN(n) {
			list = append(list, fmt.Sprint(chance.IntN(9)))
		}
		return append(list, ")")
	}
	for range 5000 {
		was, now := words(12), words(12)
		if chance.IntN(2) == 0 { // a few differ
			now = slices.Clone(was)
			for range chance.IntN(3) {
				now = slices.Insert(now, 1+chance.IntN(len(now)-1), "new")
			}
		}
		c, ok := Between(text(was...), text(now...))
		if same := slices.Equal(was, now); !ok || c.Empty() != same || text(was...).Same(text(now...)) != same {
			t.Fatalf("%v to %v: %t %+v", was, now, ok, c)
		}
		got, err := text(was...).Changed(c)
		if err != nil || string(got.Bytes()) != strings.Join(now, "") || got.Sum() != text(now...).Sum() {
			t.Fatalf("%v by %+v is %v, not %v: %v", was, c, got, now, err)
		}
		var again []string
		at := 0
		for _, r := range Regions(text(was...), text(now...)) {
			if r.Was[0] < at || r.Was == [2]int{r.Was[0], r.Was[0]} && r.Now == [2]int{r.Now[0], r.Now[0]} {
				t.Fatalf("%v and %v: region %v behind %d", was, now, r, at)
			}
			if again = append(again, was[at:r.Was[0]]...); len(again) != r.Now[0] {
				t.Fatalf("%v and %v: region %v after %v", was, now, r, again)
			}
			again, at = append(again, now[r.Now[0]:r.Now[1]]...), r.Was[1]
		}
		if again = append(again, was[at:]...); !slices.Equal(again, now) {
			t.Fatalf("%v and %v: %v", was, now, again)
		}
		a, b := Distinct(text(was...), text(now...))
		for _, x := range []struct {
			only  Text
			mine  []string
			other []string
		}{{a, was, now}, {b, now, was}} {
			want := slices.DeleteFunc(slices.Clone(x.mine), func(w string) bool { return slices.Contains(x.other, w) })
			// If a text has a part twice, one of them may be in the common end that was cut off.
			for _, p := range x.only {
				if slices.Contains(x.other, p.String()) && !slices.Contains(x.mine, p.String()) {
					t.Fatalf("%v and %v: %v", was, now, x.only)
				}
			}
			for _, w := range want {
				if !slices.ContainsFunc(x.only, func(p Part) bool { return p.String() == w }) {
					t.Fatalf("%v and %v: %v lacks %s", was, now, x.only, w)
				}
			}
		}
	}
}

func TestFrameStays(t *testing.T) {
	was := text("(", "a", "b", ")")
	for _, now := range []Text{text("[", "a", ")"), text("(", "a", "]"), text("("), nil} {
		if c, ok := Between(was, now); ok {
			t.Errorf("%v: %+v", now, c)
		}
	}
	x := []byte("x")
	for name, c := range map[string]Change{
		"head goes":      {Remove: []int{0}},
		"tail goes":      {Remove: []int{3}},
		"beyond":         {Remove: []int{4}},
		"negative":       {Remove: []int{-1}},
		"twice":          {Remove: []int{1, 1}},
		"descending":     {Remove: []int{2, 1}},
		"before head":    {Add: []Addition{{0, x}}},
		"behind tail":    {Add: []Addition{{4, x}}},
		"far behind":     {Add: []Addition{{9, x}}},
		"negative place": {Add: []Addition{{-1, x}}},
		"backwards":      {Add: []Addition{{3, x}, {1, x}}},
	} {
		c.Was = was.Sum()
		if now, err := was.Changed(c); err == nil {
			t.Errorf("%s: %v", name, now)
		}
	}
	if now, err := was.Changed(Change{Was: was.Sum(), Remove: []int{1, 2}, Add: []Addition{{3, x}}}); err != nil || string(now.Bytes()) != "(x)" {
		t.Errorf("%v %v", now, err)
	}
	if _, err := was.Changed(Change{Was: text("(", "ab", ")").Sum()}); !errors.Is(err, ErrOther) {
		t.Errorf("another text: %v", err)
	}
	if _, err := Text(nil).Changed(Change{}); !errors.Is(err, ErrOther) {
		t.Errorf("no text: %v", err)
	}
}

func TestNews(t *testing.T) {
	now := text("(\n", "a\n b\n", "c\n", "d\n d\n d\n", ")\n")
	for _, x := range []struct {
		other Text
		want  string
	}{
		{now, "(\n\n\n\n\n\n\n)\n"},
		{nil, "(\na\n b\nc\nd\n d\n d\n)\n"},
		{text("[\n", "c\n", ")\n"), "(\na\n b\n\nd\n d\n d\n)\n"},
	} {
		if got := string(now.News(x.other)); got != x.want {
			t.Errorf("%q instead of %q", got, x.want)
		}
	}
}
