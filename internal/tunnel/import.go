package tunnel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

// Importable is a WireGuard configuration file on the machine.
type Importable struct {
	Name      string   `json:"name" doc:"Name of the interface."`
	AlreadyIn bool     `json:"already_in" doc:"Whether the gateway has an interface of that name."`
	Mode      string   `json:"mode" enum:",server,client" doc:"What it would become; empty when it cannot be read."`
	Peers     int      `json:"peers" doc:"How many peers it has. The only one of a client is its upstream."`
	Notes     []string `json:"notes" doc:"Sentences about settings that are not imported, for example PostUp, and what to do."`
	Error     string   `json:"error" doc:"Why it cannot be imported; empty if it can."`
}

// ImportRequest selects what to import.
type ImportRequest struct {
	Names []value.IfName `json:"names" doc:"Names of interfaces; if empty, all that are not imported yet."`
}

// Imported is the result for one file.
type Imported struct {
	Name     string   `json:"name" doc:"Name of the interface."`
	Imported bool     `json:"imported" doc:"Whether it was imported."`
	Peers    int      `json:"peers" doc:"How many peers came with it."`
	Notes    []string `json:"notes" doc:"Sentences about settings that were not imported, and what to do."`
	Error    string   `json:"error" doc:"Why it was not; empty when it was."`
}

func (r *Room) mountImport() {
	httpd.Handle(r.Router, http.MethodGet, "/tunnel/importable", httpd.Read,
		httpd.Doc{ID: "tunnel.importable", Tag: "tunnel", Summary: "List the WireGuard configurations of the machine that can be imported"},
		func(c *httpd.Call, _ struct{}) ([]Importable, error) {
			files, err := r.importable(c, r.DB)
			list := make([]Importable, len(files))
			for i, f := range files {
				list[i] = f.Importable
			}
			return list, err
		})
	httpd.Handle(r.Router, http.MethodPost, "/tunnel/import", httpd.Write.OnPrimary(),
		httpd.Doc{ID: "tunnel.import", Tag: "tunnel", Summary: "Import WireGuard configurations of the machine", Audit: "tunnel.interface.create", Feeds: feedNames(2)},
		func(c *httpd.Call, in struct{ Body *ImportRequest }) ([]Imported, error) {
			if in.Body == nil {
				in.Body = &ImportRequest{}
			}
			return r.takeOver(c, in.Body.Names)
		})
}

// file is a parsed configuration file.
type file struct {
	Importable
	foreign *foreign // nil if it cannot be parsed
}

// importable reads the files of the machine.
func (r *Room) importable(ctx context.Context, q db.Querier) ([]file, error) {
	found, err := r.Host.TunnelFiles(ctx)
	if err != nil {
		return nil, err
	}
	interfaces, err := r.interfaces.All(ctx, q)
	if err != nil {
		return nil, err
	}
	var list []file
	for _, x := range found {
		f := file{Importable: Importable{Name: x.Name, Notes: []string{}}}
		f.AlreadyIn = slices.ContainsFunc(interfaces, func(i Interface) bool { return i.Name.String() == x.Name })
		f.Error = x.Problem
		if f.Error == "" {
			if f.foreign, err = readForeign(x.Content); err != nil {
				f.Error = err.Error()
			} else {
				f.Mode, f.Peers, f.Notes = f.foreign.mode, len(f.foreign.peers), f.foreign.notes
			}
		}
		list = append(list, f)
	}
	return list, nil
}

// takeOver imports files: the named ones, or all new ones. Each is imported completely or not at all.
func (r *Room) takeOver(c *httpd.Call, names []value.IfName) ([]Imported, error) {
	files, err := r.importable(c, r.DB)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		files = slices.DeleteFunc(files, func(f file) bool { return f.AlreadyIn })
	} else {
		var chosen []file
		for i, name := range names {
			n := slices.IndexFunc(files, func(f file) bool { return f.Name == name.String() })
			if n < 0 {
				return nil, fault.Field("names", "contains %[2]s (item %[1]d), which is not a configuration of this machine", i+1, name)
			}
			chosen = append(chosen, files[n])
		}
		files = chosen
	}
	list := []Imported{}
	for _, f := range files {
		done := Imported{Name: f.Name, Notes: f.Notes, Error: f.Error}
		if f.AlreadyIn {
			done.Error = "the gateway already has an interface with this name"
		}
		if done.Error == "" {
			if err := r.store(c, f); err != nil {
				if done.Error, err = refusal(err); err != nil {
					return nil, err
				}
			}
		}
		if done.Error == "" {
			done.Imported, done.Peers = true, f.Peers
			done.Notes = append(done.Notes, fmt.Sprintf("If wg-quick starts %[1]s at boot, turn that off (systemctl disable wg-quick@%[1]s): the gateway manages it from now on.", f.Name))
		}
		list = append(list, done)
	}
	return list, nil
}

// refusal returns the message about a refused file; other errors are passed on.
func refusal(err error) (string, error) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Invalid && f.Kind != fault.Conflict {
		return "", err
	}
	parts := []string{}
	for _, field := range slices.Sorted(maps.Keys(f.Fields)) {
		name := field[strings.LastIndexByte(field, '.')+1:] // without the operation, which only we know
		parts = append(parts, name+" "+f.Fields[field])
	}
	if len(parts) == 0 {
		return f.Message, nil
	}
	return strings.Join(parts, "; "), nil
}

// store creates the rows of a file, like an operator.
func (r *Room) store(c *httpd.Call, f file) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	x := f.foreign
	row := map[string]any{
		"name": f.Name, "mode": x.mode, "address_cidr": x.addresses, "listen_port": x.listenPort, "dns": x.dns, "mtu": x.mtu, "private_key": x.privateKey,
	}
	set := resource.Set{Reason: "imported from WireGuard's own configuration"}
	add := func(kind string, id *uuid.UUID, row map[string]any) error {
		body, err := wire.Encode(row)
		set.Operations = append(set.Operations, resource.Operation{Kind: kind, Verb: "create", ID: id, Body: body})
		return err
	}
	if x.mode == client {
		up := x.peers[0]
		maps.Copy(row, map[string]any{
			"upstream_public_key": up.publicKey, "upstream_endpoint": up.endpoint, "upstream_preshared_key": up.presharedKey,
			"upstream_allowed_ips": up.allowedIPs, "upstream_keepalive": up.keepalive,
		})
	}
	if err := add(r.interfaces.Name, &id, row); err != nil {
		return err
	}
	if x.mode == server {
		for _, p := range x.peers {
			if p.allowedIPs.IsZero() {
				return fault.Field("AllowedIPs", "is required for %s", p.name)
			}
			if err := add(r.peers.Name, nil, map[string]any{
				"interface_id": id, "name": p.name, "public_key": p.publicKey, "preshared_key": p.presharedKey, "allowed_ips": p.allowedIPs, "endpoint": p.endpoint, "keepalive": p.keepalive,
			}); err != nil {
				return err
			}
		}
	}
	changes, outcome, err := r.Resources.Commit(c, set)
	if err == nil {
		resource.Applied(c, outcome, changes...)
	}
	return err
}
