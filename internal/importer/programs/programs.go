// Package programs lists the programs whose configuration can be imported, and provides the route for it.
package programs

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/importer/haproxy"
	"edge.internal/gateway/internal/importer/opnsense"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

// Program is a program whose configuration can be imported.
type Program struct {
	Name, File, Short string
	// Read converts a file into a document. interfaces maps the file's names of interfaces to those of this machine.
	Read func(ctx context.Context, text []byte, interfaces map[string]string) (*importer.Document, *importer.Report, error)
}

// All lists the supported programs.
var All = []Program{
	{"haproxy", "haproxy.cfg", "Import domains, routing rules, backends and servers from a haproxy.cfg",
		func(ctx context.Context, text []byte, _ map[string]string) (*importer.Document, *importer.Report, error) {
			return haproxy.Import(ctx, text)
		}},
	{"opnsense", "config.xml", "Import interfaces, firewall, NAT, DHCP, DNS overrides and WireGuard from OPNsense's config.xml", opnsense.Import},
}

// Imported is a configuration document made from another program's configuration.
type Imported struct {
	Document string     `json:"document" doc:"The document, as YAML. Look at it, then plan and apply it."`
	Secret   bool       `json:"secret" doc:"Whether it has private keys in plain text."`
	Left     []LeftOver `json:"left" doc:"What the document does not contain, in the order of the file."`
}

// LeftOver is something that was not imported.
type LeftOver struct {
	Line int    `json:"line" doc:"Line of the file."`
	What string `json:"what" doc:"The directive or element."`
	Why  string `json:"why" doc:"Why it was left out."`
}

type input struct {
	From       string `query:"from" doc:"haproxy: a haproxy.cfg. opnsense: the config.xml of OPNsense."`
	Interfaces string `query:"interfaces" doc:"For OPNsense: what interfaces are called here, for example igb0=enp1s0,igb1=enp2s0."`
}

// Mount adds the route that converts other programs' configurations. It neither reads nor changes anything of the gateway. Only those who
// may apply the document may use it, because the document may contain keys. One conversion runs at a time.
func Mount(router *httpd.Router, programs []Program) {
	place := make(chan struct{}, 1)
	router.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "configuration.import", Tag: "system", Summary: "Make a configuration document of another program's configuration; nothing is saved"},
		Method: http.MethodPost, Path: "/configuration/import", Policy: httpd.AdminRead.Here(), In: reflect.TypeFor[input](), Out: &httpd.SchemaSource{Type: reflect.TypeFor[Imported]()}, Takes: "text/plain",
	}, func(c *httpd.Call) error {
		var in input
		if err := httpd.Query(c.Request, &in); err != nil {
			return err
		}
		at := slices.IndexFunc(programs, func(p Program) bool { return p.Name == in.From })
		if at < 0 {
			return fault.Field("from", "must be haproxy or opnsense")
		}
		interfaces := map[string]string{}
		for pair := range strings.FieldsFuncSeq(in.Interfaces, func(r rune) bool { return r == ',' }) {
			there, here, both := strings.Cut(strings.TrimSpace(pair), "=")
			if !both {
				return fault.Field("interfaces", "must be names in pairs, for example igb0=enp1s0")
			}
			interfaces[there] = here
		}
		text, err := c.Whole("The file", importer.MaxSize)
		if err != nil {
			return err
		}
		select {
		case place <- struct{}{}:
			defer func() { <-place }()
		case <-c.Done():
			return context.Cause(c)
		}
		doc, report, err := programs[at].Read(c, text, interfaces)
		if c.Err() != nil {
			return context.Cause(c)
		}
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "The file cannot be read: %s", err)
		}
		made, err := doc.YAML(programs[at].File)
		if err != nil {
			return err
		}
		out := Imported{Document: string(made), Secret: doc.Secret, Left: []LeftOver{}}
		for _, n := range report.Notes() {
			out.Left = append(out.Left, LeftOver(n))
		}
		return c.Reply(out)
	})
}
