package importer_test

import (
	"strings"
	"testing"

	"edge.internal/gateway/internal/importer"
)

func TestNamesAreUniqueInTheirScope(t *testing.T) {
	var d importer.Document
	long := strings.Repeat("x", 118)
	for _, x := range [][3]string{
		{"rule", "web", "web"}, {"rule", "web (3)", "web (3)"}, {"rule", " web\n", "web (2)"}, {"rule", "web", "web (4)"}, {"rule", "web (3)", "web (3) (2)"}, {"nat", "web", "web"},
		{"rule", long + "yyy", long + "yy"}, {"rule", long + "yy", long[:116] + " (2)"}, {"rule", long + "zz", long + "zz"}, {"rule", long + "zz", long[:116] + " (3)"},
	} {
		if got := d.Name(x[0], x[1]); got != x[2] {
			t.Errorf("%q in %s is called %q", x[1], x[0], got)
		}
	}
}

// A repeated name gets the next number at once, even if the names only differ after the part that is kept.
func TestNamesAreNumberedAtOnce(t *testing.T) {
	const names = 2000
	for what, wish := range map[string]func(i int) string{
		"one name": func(int) string { return "web" },
		"long names": func(i int) string {
			return strings.Repeat("x", 114) + "end" + string(rune('a'+i%50)) + string(rune('a'+i/100))
		},
	} {
		made := testing.AllocsPerRun(1, func() {
			var d importer.Document
			for i := range names {
				d.Name("rule", wish(i))
			}
		})
		if made > 50*names {
			t.Errorf("%s: %.0f allocations for %d names", what, made, names)
		}
	}
}
