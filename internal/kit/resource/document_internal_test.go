package resource

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"edge.internal/gateway/internal/kit/wire"
)

// Every text survives writing and reading by an independent YAML parser.
func FuzzDocumentText(f *testing.F) {
	for _, text := range []string{"", "plain", "yes", "1e3", "a: b", "a #b", "- x", "one\ntwo", "one\n\n  two\n", "\ttab", "end ", "\u0085", "\u2028\ufeff", `"\`, "é😀", "12:30:45", "fd00::", "10.0.0.1/8"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if strings.ToValidUTF8(name+text, "") != name+text || strings.ContainsAny(name+text, "\r\x00") {
			return
		}
		value, err := wire.Encode(map[string]any{name: text, name + "x": []any{text, map[string]any{name: []any{}, text: true}}})
		if err != nil {
			return
		}
		row := appendValue([]byte("  - field:"), value, 4)
		var node yaml.Node
		if err := yaml.Unmarshal(row, &node); err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		back, err := (&reader{adminsAllowance}).value(nil, node.Content[0].Content[0].Content[1], 0)
		if err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		var was, now any
		if json.Unmarshal(value, &was) != nil || json.Unmarshal(back, &now) != nil {
			t.Fatalf("%s became %s", value, back)
		}
		if !reflect.DeepEqual(was, now) {
			t.Fatalf("%s became %s by way of %s", value, back, row)
		}
		w, ok := divide(append([]byte(yamlHead()+"kind:\n"), row...), adminsAllowance)
		if !ok || len(w.kinds) != 2 || len(w.kinds[1].rows) != 1 || string(w.kinds[1].rows[0].text) != string(row) {
			t.Fatalf("%s is divided", row)
		}
	})
}

// A document that looks like an export is divided into the same rows as a YAML parser finds.
func FuzzDivide(f *testing.F) {
	f.Add("gateway: 1\ntoy:\n  - name: a\n    b: |\n      x\n\n      y\n  # c\n  - name: \"b\n  - c\"\n")
	f.Add("gateway: 1\ns:\n  a: 1\n  b: [x,\n  y]\n")
	for _, dense := range []string{"- - - - a", "[[[[[a]]]]]", "[a: b, c: d]", "{a,b,c}", "? ? ? a", "{? a, ? b}", "- a: - ? b", `{"a":"b","c":"d"}`, "[,]", "- !!a &b\n- *b\n-"} {
		f.Add("gateway: 1\ntoy:\n  - a: " + dense + "\n")
		f.Add(dense)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body := []byte(text + "\n")
		w, ok := divide(body, adminsAllowance)
		if !ok {
			return
		}
		whole, err := readYAML(body, adminsAllowance)
		var root yaml.Node
		if yaml.Unmarshal(body, &root) == nil {
			if n := nodes(&root); n > 2+3*marks(body) {
				t.Fatalf("%q: %d nodes and %d marks", text, n, marks(body))
			}
		}
		d := reader{adminsAllowance}
		for i, k := range w.kinds {
			for n, row := range k.rows {
				if k.name == formKey {
					continue
				}
				fields, _, bad := d.fields(w, row)
				if bad != nil {
					return // it is read as a whole
				}
				if err != nil {
					continue // the text equals that of an export, or is read as a whole
				}
				if i >= len(whole.kinds) || whole.kinds[i].name != k.name || n >= len(whole.kinds[i].rows) {
					t.Fatalf("%q: %s %d is not there", text, k.name, n)
				}
				others, _, bad := d.fields(whole, whole.kinds[i].rows[n])
				a, _ := json.Marshal(fields)
				b, _ := json.Marshal(others)
				if bad != nil || string(a) != string(b) {
					t.Fatalf("%q: %s and %s, %v", text, a, b, bad)
				}
			}
		}
	})
}

func nodes(n *yaml.Node) int {
	sum := 1
	for _, x := range n.Content {
		sum += nodes(x)
	}
	return sum
}

// A short text with many nodes is refused before they are allocated, however it is written.
func TestNodesAreCountedBeforeTheyAreMade(t *testing.T) {
	ones := strings.Repeat("1,", viewersAllowance.nodes)
	for _, text := range []string{"gateway: 1\ntoy: [" + ones + "]\n", "gateway: 1\ntoy:\n  - tags: [" + ones + "]\n"} {
		made := testing.AllocsPerRun(1, func() {
			w, err := readDocument([]byte(text), viewersAllowance)
			if err == nil {
				_, _, err = (&reader{w.allowance}).fields(w, w.kinds[1].rows[0])
			}
			if err == nil || !strings.Contains(err.Error(), "at most 100000 values, unless you are an administrator") {
				t.Errorf("%v", err)
			}
		})
		if made > 1000 {
			t.Errorf("%.0f allocations", made)
		}
	}
}

// Rows are counted as they are found.
func TestRowsAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"as an export": "gateway: 1\ntoy:\n" + strings.Repeat("  - {}\n", viewersAllowance.rows+1),
		"otherwise":    "gateway: 1\ntoy:\n" + strings.Repeat("- {}\n", viewersAllowance.rows+1),
		"JSON":         `{"gateway":1,"toy":[` + strings.TrimSuffix(strings.Repeat("{},", viewersAllowance.rows+1), ",") + `]}`,
	} {
		if _, err := readDocument([]byte(text), viewersAllowance); err == nil || !strings.Contains(err.Error(), "at most 2000 rows") {
			t.Errorf("%s: %v", name, err)
		}
		if w, err := readDocument([]byte(text), adminsAllowance); err != nil || w.count != viewersAllowance.rows+1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Numbering rows with the same label takes one step each.
func TestRowsWithOneLabelGetNumbers(t *testing.T) {
	var list []*entry
	for _, label := range []string{"a", "a #3", "a", "a", "a #3", ""} {
		list = append(list, &entry{id: uuid.New(), label: label})
	}
	s := &section{}
	s.rename(list)
	var names []string
	for _, e := range list {
		names = append(names, s.names[e.id])
	}
	if got := strings.Join(names, ","); got != "a,a #3,a #2,a #4,a #3 #2," {
		t.Error(got)
	}
	const rows = 2000
	list = nil
	for range rows {
		list = append(list, &entry{id: uuid.New(), label: "a"})
	}
	if made := testing.AllocsPerRun(1, func() { s.rename(list) }); made > 10*rows {
		t.Errorf("%.0f allocations for %d rows", made, rows)
	}
}
