// Package edits makes random change sets of the usual configuration, for tests that revert them.
package edits

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Call makes a request to a gateway's API. It returns its status, the change set that it made, if any, and its data.
type Call func(method, path string, body any) (status int, set string, data []byte, err error)

// Operation is one operation of a change set.
type Operation struct {
	Kind string         `json:"kind"`
	Verb string         `json:"verb"`
	ID   string         `json:"id,omitempty"`
	Body map[string]any `json:"body,omitempty"`
}

// Path is where the rows of a kind are, or the only one is.
type Path struct {
	Kind, Path string
	One        bool
}

// Paths are those of everything that is edited.
func Paths() []Path {
	var list []Path
	for _, k := range slices.Concat(usual, special) {
		list = append(list, Path{k.name, k.path, k.one})
	}
	return list
}

// Editor makes random change sets.
type Editor struct {
	*rand.Rand
	call  Call
	kinds []kind
	n     int
	rows  map[string][]row // by path
	// document is the configuration with its secrets, sealed.
	document func() (string, error)
	// Kernel, where there is one, is what the kernel has.
	Kernel func() string
}

// New returns an editor of the usual kinds, whose sets are the same for the same seed and the same state.
func New(seed uint64, call Call) *Editor {
	return &Editor{Rand: rand.New(rand.NewPCG(seed, 1)), call: call, kinds: usual}
}

// NewOfAll returns an editor of every kind, which compares the document, too.
func NewOfAll(seed uint64, call Call, document func() (string, error)) *Editor {
	e := New(seed, call)
	e.kinds, e.document = slices.Concat(usual, special), document
	return e
}

func (e *Editor) one(choices ...string) string { return choices[e.IntN(len(choices))] }

func (e *Editor) address(n int) string {
	return fmt.Sprintf("10.%d.%d.%d", 20+n>>16&127, n>>8&255, 1+n&127)
}

func (e *Editor) some(path string) string {
	if len(e.rows[path]) == 0 {
		return ""
	}
	return e.rows[path][e.IntN(len(e.rows[path]))]["id"].(string)
}

func (e *Editor) row(path, id string) row {
	return e.rows[path][slices.IndexFunc(e.rows[path], func(x row) bool { return x["id"] == id })]
}

// members are up to three rows.
func (e *Editor) members(path string) []string {
	list := []string{}
	for range e.IntN(4) {
		if id := e.some(path); id != "" && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// Next is another change set.
func (e *Editor) Next() ([]Operation, error) {
	if err := e.look(); err != nil {
		return nil, err
	}
	var set []Operation
	touched := map[string]bool{}
	for want := 1 + e.IntN(5); len(set) < want; {
		k := e.kinds[e.IntN(len(e.kinds))]
		e.n++
		id := e.some(cmp.Or(k.of, k.path))
		switch choice := e.IntN(4); {
		case k.one && !touched[k.name]:
			touched[k.name] = true
			set = append(set, Operation{Kind: k.name, Verb: "update", Body: k.change(e, e.n)})
		case k.one:
		case k.make == nil && id != "" && !touched[k.name+id]:
			touched[k.name+id] = true
			set = append(set, Operation{Kind: k.name, Verb: "update", ID: id, Body: k.change(e, e.n)})
		case k.make == nil:
		case choice < 2 || id == "" || touched[k.name+id]:
			if body := k.make(e, e.n); body != nil {
				set = append(set, Operation{Kind: k.name, Verb: "create", Body: body})
			}
		case choice == 2 && k.change != nil:
			touched[k.name+id] = true
			set = append(set, Operation{Kind: k.name, Verb: "update", ID: id, Body: k.change(e, e.n)})
		default:
			touched[k.name+id] = true
			e.rows[k.path] = slices.DeleteFunc(e.rows[k.path], func(x row) bool { return x["id"] == id })
			set = append(set, Operation{Kind: k.name, Verb: "delete", ID: id})
		}
	}
	return set, nil
}

func (e *Editor) look() error {
	e.rows = map[string][]row{}
	for _, k := range e.kinds {
		list, err := e.list(k)
		if err != nil {
			return err
		}
		for _, x := range list {
			if builtin, _ := x["builtin"].(bool); !builtin && (k.free == nil || k.free(x)) {
				e.rows[k.path] = append(e.rows[k.path], x)
			}
		}
	}
	return nil
}

func (e *Editor) list(k kind) (list []row, err error) {
	if k.one {
		list = []row{{}}
		err = e.get(k.path, &list[0])
		return list, err
	}
	if k.of != "" {
		return e.extensions(k)
	}
	if k.below == "" {
		err = e.get(k.path, &list)
		return list, err
	}
	var parents []struct{ ID string }
	if err := e.get(k.below, &parents); err != nil {
		return nil, err
	}
	for _, parent := range parents {
		var some []row
		if err := e.get(strings.Replace(k.path, "{parent}", parent.ID, 1), &some); err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func (e *Editor) get(path string, into any) error {
	status, _, data, err := e.call("GET", path, nil)
	switch {
	case err != nil:
		return err
	case status != 200:
		return fmt.Errorf("GET %s answers %d: %s", path, status, data)
	}
	return json.Unmarshal(data, into)
}

// Target is a row of a kind, and a function that changes some of its fields.
type Target struct {
	Kind   string
	ID     string                // empty for the only row of its kind
	Made   string                // the change set that created it, if one did
	Change func() map[string]any // nil if the editor changes none
}

// Furnish finds a row of each kind, and creates missing ones.
func (e *Editor) Furnish() ([]Target, error) {
	var list []Target
	found := map[string]bool{}
	for len(list) < len(e.kinds) {
		before := len(list)
		for _, k := range e.kinds {
			if found[k.name] {
				continue
			}
			x, err := e.target(k)
			if err != nil {
				return nil, err
			}
			if k.one || x.ID != "" {
				found[k.name] = true
				list = append(list, x)
			}
		}
		if len(list) == before {
			return nil, fmt.Errorf("there are rows of %v, and of nothing else", found)
		}
	}
	return list, nil
}

// target returns a row of a kind, and creates it if necessary. It has no id if that requires a row of another kind first.
func (e *Editor) target(k kind) (Target, error) {
	x := Target{Kind: k.name}
	if k.change != nil {
		x.Change = func() map[string]any { e.n++; return k.change(e, e.n) }
	}
	if err := e.look(); err != nil || k.one {
		return x, err
	}
	if x.ID = e.some(cmp.Or(k.of, k.path)); x.ID != "" || k.make == nil {
		return x, nil
	}
	e.n++
	body := k.make(e, e.n)
	if body == nil {
		return x, nil
	}
	status, set, data, err := e.call("POST", "/change-sets", map[string]any{"operations": []Operation{{Kind: k.name, Verb: "create", Body: body}}})
	if err != nil || status != 200 {
		return x, errors.Join(err, fmt.Errorf("%v: %d %s", body, status, data))
	}
	var made struct{ Changes []struct{ ID string } }
	if err := json.Unmarshal(data, &made); err != nil {
		return x, err
	}
	x.ID, x.Made = made.Changes[0].ID, set
	return x, nil
}

// State is all rows but for their times, the same as a document with the secrets, the files that they mean, and what the kernel has.
func (e *Editor) State() (string, error) {
	var all strings.Builder
	for _, k := range e.kinds {
		list, err := e.list(k)
		if err != nil {
			return "", err
		}
		for _, x := range list {
			timeless(x)
			b, err := json.Marshal(x)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&all, "%s %s\n", k.name, b)
		}
	}
	var components []struct{ Name string }
	if err := e.get("/system/components", &components); err != nil {
		return "", err
	}
	for _, c := range components {
		preview, err := e.preview(c.Name)
		if err != nil {
			return "", err
		}
		for _, f := range preview.Files {
			fmt.Fprintf(&all, "%s\n%s\n", f.Path, f.Content)
		}
	}
	document, err := e.document()
	if err != nil {
		return "", err
	}
	all.WriteString(document)
	if e.Kernel != nil {
		all.WriteString(e.Kernel())
	}
	return all.String(), nil
}

// extensions reads the rows that extend rows of another kind. Without a stored row, they have the defaults, as after a revert
// to them.
func (e *Editor) extensions(k kind) (list []row, err error) {
	var owners []struct{ ID string }
	if err := e.get(k.of, &owners); err != nil {
		return nil, err
	}
	for _, owner := range owners {
		x := row{}
		if err := e.get(k.path+"/"+owner.ID, &x); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// timeless removes the times from a row, and from rows inside of it.
func timeless(x any) {
	switch x := x.(type) {
	case row:
		delete(x, "created_at")
		delete(x, "updated_at")
		for _, v := range x {
			timeless(v)
		}
	case []any:
		for _, v := range x {
			timeless(v)
		}
	}
}

type preview struct {
	Files []struct{ Path, Content string }
	Diff  string
}

// preview returns the files of a component. If it was changed while it runs, they are written a moment later.
func (e *Editor) preview(component string) (p preview, err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		p = preview{}
		if err := e.get("/system/config-preview?generator="+component, &p); err != nil || p.Diff == "" {
			return p, err
		}
	}
	return p, fmt.Errorf("what is live is not what is stored:\n%s", p.Diff)
}

// Revert makes a random change set, reverts it, and returns an error if anything differs from before. Sets that the gateway refuses are
// skipped. Every other set is restored by reverting its revert, so that there are more and more rows to change.
func (e *Editor) Revert() error {
	before, err := e.State()
	if err != nil {
		return err
	}
	set, id, err := e.apply()
	if err != nil {
		return err
	}
	after, err := e.State()
	if err != nil {
		return fmt.Errorf("after %v: %w", set, err)
	}
	back, err := e.takeBack(id)
	if err != nil {
		return fmt.Errorf("taking back %v: %w", set, err)
	}
	now, err := e.State()
	if err != nil {
		return fmt.Errorf("after taking back %v: %w", set, err)
	}
	if now != before {
		return fmt.Errorf("%v leaves\n%s\nof\n%s", set, now, before)
	}
	if e.IntN(2) == 0 {
		return nil
	}
	if _, err := e.takeBack(back); err != nil {
		return fmt.Errorf("bringing %v about again: %w", set, err)
	}
	if now, err = e.State(); err == nil && now != after {
		err = fmt.Errorf("%v again leaves\n%s\nof\n%s", set, now, after)
	}
	return err
}

func (e *Editor) apply() (set []Operation, id string, err error) {
	for range 100 {
		if set, err = e.Next(); err != nil {
			return nil, "", err
		}
		status, id, data, err := e.call("POST", "/change-sets", map[string]any{"operations": set})
		switch {
		case err != nil:
			return set, "", err
		case status != 200 && status != 404 && status != 409: // one of the rows is in use, or was deleted with another
			return set, "", fmt.Errorf("%v: %d %s", set, status, data)
		case id != "":
			return set, id, nil
		}
	}
	return nil, "", errors.New("a hundred sets in a row are refused or change nothing")
}

func (e *Editor) takeBack(id string) (string, error) {
	status, back, data, err := e.call("POST", "/change-sets/"+id+"/revert", nil)
	if err == nil && (status != 200 || back == "") {
		err = fmt.Errorf("%d %s", status, data)
	}
	return back, err
}
