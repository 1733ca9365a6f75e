// Package fuzz mutates rendered files for tests, and inspects with strace what checkers do with those that the guard admits.
package fuzz

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/helper/guard"
	"edge.internal/gateway/internal/kit/host/helper/guard/hostile"
)

// Subject is the input of a checker: a real rendering, or a mutated one.
type Subject struct {
	Command host.Command
	Files   []host.File
	// Changed is the mutated lines, for people: a character that a mutation has cut in two is replaced.
	Changed string
}

// CheckedPlaces has the places of the files that each checker reads. The first one has the directives.
var CheckedPlaces = func() map[host.Command][]host.Place {
	checked := map[host.Command][]host.Place{}
	for c, spec := range daemon.Commands() {
		if len(spec.Staged) > 0 {
			checked[c] = spec.Staged
		}
	}
	return checked
}()

// Reads returns the files that checkers may read besides the staged ones: those that any program reads, and further ones of the
// checkers.
func Reads(common []string) []string {
	reads := slices.Clone(common)
	for c := range CheckedPlaces {
		if spec, err := c.Spec(); err == nil {
			reads = append(reads, spec.Reads...)
		}
	}
	return reads
}

// Subjects returns the golden files of the rooms in a folder, and the packet filter of a machine before its setup.
func Subjects(rooms string) ([]Subject, error) {
	files := map[string][]byte{}
	for _, name := range []string{"app/root/first.nft", "proxy/blocked.html"} {
		content, err := os.ReadFile(filepath.Join(rooms, name))
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	all := []Subject{{Command: nftables.Check, Files: []host.File{{Place: nftables.Table, Content: files["app/root/first.nft"]}}}}
	golden, err := filepath.Glob(filepath.Join(rooms, "*/testdata/render/*.txtar"))
	if err != nil {
		return nil, err
	}
	for _, path := range golden {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			return nil, err
		}
		contents := map[string][]byte{
			haproxy.BlockedPage.Path(): files["proxy/blocked.html"], haproxy.MaintenancePage.Path(): []byte("<p>Soon.</p>\n"),
		}
		for _, f := range archive.Files {
			contents[f.Name] = f.Data
		}
		all = append(all, Of(contents)...)
	}
	for c := range CheckedPlaces {
		if !slices.ContainsFunc(all, func(s Subject) bool { return s.Command == c }) {
			return nil, fmt.Errorf("nothing is rendered for %s", c)
		}
	}
	return all, nil
}

// Of returns a subject for each checker whose files are all in contents, by path.
func Of(contents map[string][]byte) (all []Subject) {
	for _, c := range slices.Sorted(maps.Keys(CheckedPlaces)) {
		s := Subject{Command: c}
		for _, p := range CheckedPlaces[c] {
			if content, ok := contents[p.Path()]; ok {
				s.Files = append(s.Files, host.File{Place: p, Content: content})
			}
		}
		if len(s.Files) == len(CheckedPlaces[c]) {
			all = append(all, s)
		}
	}
	return all
}

func (s Subject) Admitted() bool {
	return !slices.ContainsFunc(s.Files, func(f host.File) bool { return guard.Admit(f) != nil })
}

// marks are special characters of the grammars.
var marks = []string{"\n", " ", "\t", "\\", "\"", "'", "#", ";", "{", "}", "$", "%", "`", "(", ")", "[", "]", "<", "@", ":", "=", "/", "..", "/etc/shadow", "\\\n", "\r", "\x00", "\x0b", "é"}

// Mutate changes one file in a few places, mostly with words from hostile files.
func (s Subject) Mutate(r *rand.Rand) Subject {
	at := r.IntN(len(s.Files))
	if r.IntN(2) == 0 {
		at = 0 // the one with the directives
	}
	files := slices.Clone(s.Files)
	var words []string
	for _, f := range hostile.Files() {
		if f.Place == files[at].Place {
			words = append(words, string(f.Content))
			words = append(words, strings.Fields(string(f.Content))...)
		}
	}
	text := string(files[at].Content)
	words = append(append(words, marks...), strings.Fields(text)...)
	for range 1 + r.IntN(3) {
		lines := strings.SplitAfter(text, "\n")
		i := r.IntN(len(lines))
		word := words[r.IntN(len(words))]
		switch r.IntN(7) {
		case 0: // remove a line
			lines = slices.Delete(lines, i, i+1)
		case 1: // insert a line
			lines = slices.Insert(lines, i, word+"\n")
		case 2: // swap lines
			lines[i], lines[r.IntN(len(lines))] = lines[r.IntN(len(lines))], lines[i]
		case 3: // join two lines
			lines[i] = strings.TrimSuffix(lines[i], "\n") + " "
		case 4: // replace a word
			if parts := strings.Split(lines[i], " "); len(parts) > 0 {
				parts[r.IntN(len(parts))] = word
				lines[i] = strings.Join(parts, " ")
			}
		default: // insert a word anywhere
			j := r.IntN(len(lines[i]) + 1)
			lines[i] = lines[i][:j] + word + lines[i][j:]
		}
		text = strings.Join(lines, "")
	}
	was := strings.Split(string(files[at].Content), "\n")
	changed := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(was, line) })
	files[at].Content = []byte(text)
	return Subject{s.Command, files, strings.ToValidUTF8(string(files[at].Place)+":\n"+strings.Join(changed, "\n"), "\uFFFD")}
}
