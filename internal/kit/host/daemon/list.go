package daemon

import (
	"fmt"
	"maps"
)

// The closed lists. Know fills them while the program is initialized, and nothing changes them later.
var (
	units    []UnitSpec
	places   = map[Place]PlaceSpec{}
	families []Family
	commands = map[Command]CommandSpec{}
	logs     = map[Log]LogSpec{}
	sources  = map[LogSource]LogSourceSpec{}
)

// Know makes the closed lists of the daemons. Package host does so once, with all that there are.
func Know(all []Daemon) {
	for _, d := range all {
		units = append(units, d.Units...)
		families = append(families, d.Families...)
		join(places, d.Places)
		join(commands, d.Commands)
		join(logs, d.Logs)
		join(sources, d.Sources)
	}
}

// join adds entries to a list. Two of one name are a mistake of the program.
func join[K ~string, V any](list, more map[K]V) {
	for name := range more {
		if _, twice := list[name]; twice {
			panic(fmt.Sprintf("%q is declared twice", string(name)))
		}
	}
	maps.Copy(list, more)
}

// listed finds an entry.
func listed[K ~string, V any](list map[K]V, kind string, name K) (V, error) {
	if len(places) == 0 {
		panic("the closed lists are package host's, and this program has not got it")
	}
	v, ok := list[name]
	if !ok {
		return v, fmt.Errorf("no %s %q in the list", kind, string(name))
	}
	return v, nil
}

// UnitSpecs returns the closed list of units, in the order in which they start.
func UnitSpecs() []UnitSpec { return units }

// Places returns the closed list of places, without those of families.
func Places() map[Place]PlaceSpec { return places }

// Families returns the closed list of families of places.
func Families() []Family { return families }

// Commands returns the closed list of commands.
func Commands() map[Command]CommandSpec { return commands }
