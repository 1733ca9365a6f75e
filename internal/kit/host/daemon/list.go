package daemon

import (
	"fmt"
	"maps"
)

// The closed lists. Register fills them during program initialization; they are read-only afterwards.
var (
	units    []UnitSpec
	places   = map[Place]PlaceSpec{}
	families []Family
	commands = map[Command]CommandSpec{}
	logs     = map[Log]LogSpec{}
	sources  = map[LogSource]LogSourceSpec{}
)

// Register fills the closed lists. Package host calls it once.
func Register(all []Daemon) {
	for _, d := range all {
		units = append(units, d.Units...)
		families = append(families, d.Families...)
		join(places, d.Places)
		join(commands, d.Commands)
		join(logs, d.Logs)
		join(sources, d.Sources)
	}
}

// join panics on duplicate names, which are programming errors.
func join[K ~string, V any](list, more map[K]V) {
	for name := range more {
		if _, twice := list[name]; twice {
			panic(fmt.Sprintf("%q is declared twice", string(name)))
		}
	}
	maps.Copy(list, more)
}

func listed[K ~string, V any](list map[K]V, kind string, name K) (V, error) {
	if len(places) == 0 {
		panic("the closed lists are empty: import package host, which fills them")
	}
	v, ok := list[name]
	if !ok {
		return v, fmt.Errorf("unknown %s %q", kind, string(name))
	}
	return v, nil
}

// UnitSpecs returns the closed list of units in start order.
func UnitSpecs() []UnitSpec { return units }

// Places returns the closed list of places, without the members of families.
func Places() map[Place]PlaceSpec { return places }

func Families() []Family { return families }

func Commands() map[Command]CommandSpec { return commands }
