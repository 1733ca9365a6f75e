package tunnel

import (
	"net/http"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// Importable is a configuration file that the machine has for WireGuard.
type Importable struct {
	Name      string   `json:"name" doc:"Name of the interface."`
	AlreadyIn bool     `json:"already_in" doc:"Whether the gateway has an interface of that name."`
	Mode      string   `json:"mode" enum:",server,client" doc:"What it would become; empty when it cannot be read."`
	Peers     int      `json:"peers" doc:"How many peers it has. The only one of a client is its upstream."`
	Notes     []string `json:"notes" doc:"Sentences about what is not taken over, such as PostUp, and what to do."`
	Error     string   `json:"error" doc:"Why it cannot be taken over; empty when it can."`
}

// ImportRequest says what to take over.
type ImportRequest struct {
	Names []value.IfName `json:"names" doc:"Names of interfaces; none takes all that are not there yet."`
}

// Imported is what became of one file.
type Imported struct {
	Name     string   `json:"name" doc:"Name of the interface."`
	Imported bool     `json:"imported" doc:"Whether it was taken over."`
	Peers    int      `json:"peers" doc:"How many peers came with it."`
	Notes    []string `json:"notes" doc:"Sentences about what was not taken over, and what to do."`
	Error    string   `json:"error" doc:"Why it was not; empty when it was."`
}

func (r *Room) mountImport() {
	httpd.Handle(r.Router, http.MethodGet, "/tunnel/importable", httpd.Read,
		httpd.Doc{ID: "tunnel.importable", Tag: "tunnel", Summary: "The configuration files of the machine that can be taken over"},
		func(c *httpd.Call, _ struct{}) ([]Importable, error) { return []Importable{}, nil })
	httpd.Handle(r.Router, http.MethodPost, "/tunnel/import", httpd.Write,
		httpd.Doc{ID: "tunnel.import", Tag: "tunnel", Summary: "Take over configuration files of the machine", Audit: "tunnel.interface.create", Feeds: feedNames(2)},
		func(c *httpd.Call, in struct{ Body ImportRequest }) ([]Imported, error) { return []Imported{}, nil })
}
