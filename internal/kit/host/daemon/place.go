package daemon

import (
	"io/fs"
	"strings"

	"edge.internal/gateway/internal/kit/parts"
)

// Place is one file that the gateway writes on the machine: one of the list, or one of a family whose members have an id.
type Place string

// PlaceSpec is all that the machine must know about a place.
type PlaceSpec struct {
	Path         string
	Mode         fs.FileMode
	Owner, Group string
	// Grammar complains about a content that no renderer writes. It is nil for a list, a page or a key: nothing in these is a directive.
	Grammar func(text string) error
	// Part is the grammar of one part of a place that can be written part by part. A text is admitted exactly if its frame and each of its
	// parts are.
	Part func(part string) error
	// Split divides such a text into its parts.
	Split func(text string) (parts.Text, error)
}

// FileAt is a file with its mode, owner and group, and its grammar if it has one.
func FileAt(path string, mode fs.FileMode, owner, group string, grammar func(text string) error) PlaceSpec {
	return PlaceSpec{Path: path, Mode: mode, Owner: owner, Group: group, Grammar: grammar}
}

// Family is a folder of places whose names end in something that is not known before.
type Family struct {
	Prefix string // of the places' names
	Folder string // with a slash behind it
	Suffix string // of the files
	// Names says whether a place may be named so behind the prefix.
	Names        func(name string) bool
	Mode         fs.FileMode
	Owner, Group string
}

// place is the member of a family with a name.
func (f Family) place(name string) PlaceSpec {
	return PlaceSpec{Path: f.Folder + name + f.Suffix, Mode: f.Mode, Owner: f.Owner, Group: f.Group}
}

// Path tells where the place is on a real gateway; it is empty for a place that is not in the list.
func (p Place) Path() string {
	spec, _ := p.Spec()
	return spec.Path
}

// Spec returns the entry of the place in the closed list.
func (p Place) Spec() (PlaceSpec, error) {
	for _, f := range families {
		if name, ok := strings.CutPrefix(string(p), f.Prefix); ok && f.Names(name) {
			return f.place(name), nil
		}
	}
	return listed(places, "place", p)
}

// IsPlace tells whether a path is that of a place.
func IsPlace(path string) bool {
	for _, f := range families {
		name, within := strings.CutPrefix(path, f.Folder)
		name, ends := strings.CutSuffix(name, f.Suffix)
		if within && ends && f.Names(name) {
			return true
		}
	}
	for _, spec := range places {
		if spec.Path == path {
			return true
		}
	}
	return false
}
