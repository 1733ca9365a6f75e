package lab

import (
	"path/filepath"

	"edge.internal/gateway/internal/kit/host"
)

// plan is what Up sends to init.
type plan struct {
	Dir      string   // the state folder
	Programs string   // the folder of the gateway's programs
	Env      []string // added to the environment of the gateway's programs
	Volatile bool     // without fsync
	Site     int      // which networks it has
	Node     int      // index of the node, from 1
	Nodes    int      // number of gateways
	Laid     int      // number of namespaces of other sides that exist already, and are inherited
	HAProxy  string   // replaces the machine's HAProxy; empty for that itself
	Alone    bool     // without the helper
	Reason   string   // why there are no namespaces; empty if there are
}

// report is one line that init sends to Up.
type report struct {
	Step   string `json:"step,omitempty"`   // a step is done
	Denied string `json:"denied,omitempty"` // the namespaces cannot be created
	Error  string `json:"error,omitempty"`  // the lab cannot start
	Ready  bool   `json:"ready,omitempty"`
}

func (p plan) isolated() bool { return p.Reason == "" }

func (p plan) name() string { return nodeName(p.Node, p.Nodes) }

func (p plan) wires() []wire { return wires(p.Site, p.Node, p.Nodes) }

// root is the prefix of the gateway's paths without namespaces.
func (p plan) root() string {
	if p.isolated() {
		return ""
	}
	return filepath.Join(p.Dir, "root")
}

func (p plan) path(inside string) string { return filepath.Join(p.root(), inside) }

func logFile(dir string, u host.Unit) string { return filepath.Join(dir, "log", string(u)+".log") }
