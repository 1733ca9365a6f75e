package nft

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/parts"
)

// An edit leads from any list to any other, and keeps as many items in place as possible.
func TestEdit(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		var was []string
		for range chance.IntN(12) {
			was = append(was, fmt.Sprint(chance.IntN(8)))
		}
		now := slices.Clone(was)
		for range chance.IntN(4) {
			at := chance.IntN(len(now) + 1)
			switch {
			case at == len(now) || chance.IntN(3) == 0:
				now = slices.Insert(now, at, fmt.Sprint(chance.IntN(10)))
			case chance.IntN(2) == 0:
				now = slices.Delete(now, at, at+1)
			default:
				line := now[at]
				now = slices.Delete(now, at, at+1)
				now = slices.Insert(now, chance.IntN(len(now)+1), line)
			}
		}
		e := edit(was, now)
		if got := carryOut(was, e); !slices.Equal(got, now) {
			t.Fatalf("%v by %+v is %v, not %v", was, e, got, now)
		}
	}
	moved := edit([]string{"a", "b", "c", "d", "e"}, []string{"d", "a", "b", "c", "e"})
	if len(moved.Remove) != 1 || len(moved.Add) != 1 || moved.Remove[0] != 3 || moved.Add[0] != (Addition{0, "d"}) {
		t.Errorf("a rule that moves: %+v", moved)
	}
}

// carryOut applies an edit as the kernel does.
func carryOut(was []string, e Edit) (now []string) {
	for i := 0; i <= len(was); i++ {
		for _, a := range e.Add {
			if a.Before == i {
				now = append(now, a.Rule)
			}
		}
		if i < len(was) && !slices.Contains(e.Remove, i) {
			now = append(now, was[i])
		}
	}
	return now
}

func tableText(sets, chains string) string { return head("gateway") + sets + chains + "}\n" }

func TestDifference(t *testing.T) {
	set := func(name, elements string) string {
		if elements != "" {
			elements = "\t\telements = { " + elements + " }\n"
		}
		return "\tset " + name + " {\n\t\ttype ipv4_addr\n\t\tflags interval\n" + elements + "\t}\n"
	}
	chain := func(name string, lines ...string) string {
		return "\tchain " + name + " {\n" + strings.Join(lines, "") + "\t}\n"
	}
	was := tableText("\t# a note\n"+set("a", "10.0.0.1, 10.0.0.5")+set("b", "")+set("c", "")+set("e", "10.0.0.1, 10.0.0.9"), chain("x", "\t\thook\n", "\t one\n", "\t two\n")+chain("y", "\t three\n"))
	now := tableText(set("a", "10.0.0.1, 10.0.0.3, 10.0.0.7")+set("b", "")+set("d", "")+set("e", "10.0.0.0/31, 10.0.0.9"), chain("z", "\t three\n")+chain("x", "\t\thook\n", "\t two\n", "\t four\n"))
	c, ok := Difference(split(t, was), split(t, now))
	want := Change{
		NewSets: []ListedSet{{"d", "ipv4_addr", ""}}, Refills: []Refill{
			{Name: "a", Type: "ipv4_addr", Remove: "10.0.0.5", Add: "10.0.0.3, 10.0.0.7"},
			{Name: "e", Type: "ipv4_addr", Whole: true, Add: "10.0.0.0/31, 10.0.0.9"},
		}, GoneSets: []string{"c"},
		NewChains: []ListedChain{{"z", "", "\t three\n"}}, GoneChains: []string{"y"},
		Edits: []Edit{{"x", 2, []int{0}, []Addition{{2, "four"}}}},
	}
	if !ok || fmt.Sprintf("%+v", c) != fmt.Sprintf("%+v", want) {
		t.Errorf("%t %+v", ok, c)
	}
	if c, ok := Difference(split(t, was), split(t, strings.Replace(was, "a note", "another", 1))); !ok || !c.Empty() {
		t.Errorf("a note: %t %+v", ok, c)
	}
	for name, other := range map[string]string{
		"another hook": strings.Replace(was, "\t\thook", "\t\tother", 1),
		"another text": strings.Replace(was, "flags interval", "flags timeout", 1),
		"too much":     tableText("", chain("x", "\t\thook\n", strings.Repeat("\t rule\n", manyRules+10))),
	} {
		if c, ok := Difference(split(t, was), split(t, other)); ok {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for name, other := range map[string]string{
		"another table": strings.ReplaceAll(was, "gateway", "other"),
		"more after it": was + "flush ruleset\n",
		"more before":   "flush ruleset\n" + was,
		"cut off":       was[:len(was)-10],
		"no end":        was[:len(was)-2],
		"two ends":      was + "}\n",
		"a statement":   strings.Replace(was, "\tset a", "\tinclude \"x\"\n\tset a", 1),
	} {
		if text, err := Split("gateway", other); err == nil {
			t.Errorf("%s: %q", name, text)
		}
		if l, err := Read("gateway", other); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func split(t *testing.T, text string) parts.Text {
	t.Helper()
	p, err := Split("gateway", text)
	if err != nil || string(p.Bytes()) != text {
		t.Fatalf("%v\n%s\nis split into\n%s", err, text, p)
	}
	return p
}

// A part must be exactly one complete thing.
func TestReadPart(t *testing.T) {
	for _, good := range []string{"\t# note\n", "\tchain x {\n\t}\n", "\tchain x {\n\t\thook\n\t accept\n\t}\n", "\tset s {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t}\n"} {
		if _, err := ReadPart(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "\n", "}\n", head("gateway"), "\t# note", "\t# note\n}\n", "\tchain x {\n", "\tchain x {\n\t}", "\tchain x {\n\t}\n}\n", "\tchain x {\n\t}\n\tchain y {\n\t}\n",
		"\tchain x {\n\t}\n# \n\t}\n", "chain x {\n\t}\n", "\tmap x {\n\t}\n", "\tchain x\n\t}\n",
	} {
		if l, err := ReadPart(bad); err == nil {
			t.Errorf("%q: %+v", bad, l)
		}
	}
}
