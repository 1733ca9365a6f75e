package lab

import (
	"path/filepath"

	"edge.internal/gateway/internal/kit/host"
)

// plan is what Up tells init.
type plan struct {
	Dir      string   // the state folder
	Programs string   // the folder of the gateway's programs
	Env      []string // added to the environment of the gateway's programs
	Volatile bool     // without fsync
	Site     int      // which networks it has
	Node     int      // which of the nodes it is, from 1
	Nodes    int      // how many gateways there are
	Laid     int      // how many of the other sides are there already, and inherited
	HAProxy  string   // the program that stands for the machine's HAProxy; empty for that itself
	Alone    bool     // without the helper
	Reason   string   // why there are no namespaces; empty when there are
}

// report is one line that init tells Up.
type report struct {
	Step   string `json:"step,omitempty"`   // something is done
	Denied string `json:"denied,omitempty"` // the namespaces cannot be laid out
	Error  string `json:"error,omitempty"`  // the lab cannot start
	Ready  bool   `json:"ready,omitempty"`
}

func (p plan) isolated() bool { return p.Reason == "" }

func (p plan) name() string { return nodeName(p.Node, p.Nodes) }

func (p plan) wires() []wire { return wires(p.Site, p.Node, p.Nodes) }

// root stands before the paths of the gateway where there are no namespaces.
func (p plan) root() string {
	if p.isolated() {
		return ""
	}
	return filepath.Join(p.Dir, "root")
}

func (p plan) path(inside string) string { return filepath.Join(p.root(), inside) }

func logFile(dir string, u host.Unit) string { return filepath.Join(dir, "log", string(u)+".log") }
