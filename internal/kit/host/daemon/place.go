package daemon

import (
	"io/fs"
	"strings"

	"edge.internal/gateway/internal/kit/parts"
)

// Place names a file that the gateway writes: an entry of the closed list, or a member of a family.
type Place string

type PlaceSpec struct {
	Path         string
	Mode         fs.FileMode
	Owner, Group string
	// Grammar returns an error for content that no renderer of the gateway writes. It is nil for files without directives, such as
	// lists, pages and keys.
	Grammar func(text string) error
	// Part is the grammar of a single part, for places that can be written part by part. A text must be accepted if and only if its
	// frame and each of its parts are.
	Part  func(part string) error
	Split func(text string) (parts.Text, error)
}

func FileAt(path string, mode fs.FileMode, owner, group string, grammar func(text string) error) PlaceSpec {
	return PlaceSpec{Path: path, Mode: mode, Owner: owner, Group: group, Grammar: grammar}
}

// Family is a folder of places whose names end in an id.
type Family struct {
	Prefix string // of the names of its places
	Folder string // ends in a slash
	Suffix string // of the file names
	// Names reports whether a name after the prefix is valid.
	Names        func(name string) bool
	Mode         fs.FileMode
	Owner, Group string
}

func (f Family) place(name string) PlaceSpec {
	return PlaceSpec{Path: f.Folder + name + f.Suffix, Mode: f.Mode, Owner: f.Owner, Group: f.Group}
}

// Path returns the path on a real gateway; empty if the place is unknown.
func (p Place) Path() string {
	spec, _ := p.Spec()
	return spec.Path
}

func (p Place) Spec() (PlaceSpec, error) {
	for _, f := range families {
		if name, ok := strings.CutPrefix(string(p), f.Prefix); ok && f.Names(name) {
			return f.place(name), nil
		}
	}
	return listed(places, "place", p)
}

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
