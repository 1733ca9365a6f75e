package tunnel

import (
	"net/http"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/wire"
)

// NewKey is the public part of a new key pair.
type NewKey struct {
	PublicKey Key `json:"public_key" doc:"The new public key. Every device that has the old one needs it."`
}

// NextAddress is a free address for the next peer.
type NextAddress struct {
	Address Networks `json:"address" doc:"The first free address of each network of the interface, with commas between them."`
}

type byID struct {
	ID uuid.UUID `path:"id" doc:"Id of the row."`
}

func (r *Room) mountKeys() {
	httpd.Handle(r.Router, http.MethodPost, "/tunnel/interfaces/{id}/generate-keypair", httpd.Write.OnPrimary(),
		httpd.Doc{ID: "tunnel.interface.generate-keypair", Tag: "tunnel", Summary: "Generate a new key pair for an interface. Its peers then need the new public key", Audit: "tunnel.interface.update", Feeds: feedNames(2)},
		func(c *httpd.Call, in byID) (NewKey, error) { return newPair(c, r, r.interfaces.Name, in.ID) })
	httpd.Handle(r.Router, http.MethodPost, "/peers/{id}/generate-keypair", httpd.Write.OnPrimary(),
		httpd.Doc{ID: "tunnel.peer.generate-keypair", Tag: "tunnel", Summary: "Generate a new key pair for a peer, which then needs the new configuration", Audit: "tunnel.peer.update", Feeds: feedNames(1)},
		func(c *httpd.Call, in byID) (NewKey, error) { return newPair(c, r, r.peers.Name, in.ID) })
	httpd.Handle(r.Router, http.MethodGet, "/tunnel/interfaces/{id}/next-address", httpd.Read,
		httpd.Doc{ID: "tunnel.interface.next-address", Tag: "tunnel", Summary: "The first free address for a peer"},
		func(c *httpd.Call, in byID) (NextAddress, error) {
			i, err := r.interfaces.Get(c, r.DB, in.ID)
			if err != nil {
				return NextAddress{}, err
			}
			if i.Mode != server {
				return NextAddress{}, fault.New(fault.Conflict, "%s is a client, which has no peers.", i.Name)
			}
			next, err := r.nextAddress(c, r.DB, i)
			return NextAddress{next}, err
		})
}

// feedNames returns the names of the first n components that the room feeds.
func feedNames(n int) (names []string) {
	for _, id := range feeds[:n] {
		names = append(names, string(id))
	}
	return names
}

// newPair changes the private key of a row, like an operator who enters one.
func newPair(c *httpd.Call, r *Room, kind string, id uuid.UUID) (out NewKey, err error) {
	private, err := generate()
	if err != nil {
		return out, err
	}
	body, err := wire.Encode(map[string]string{"private_key": private.String()})
	if err != nil {
		return out, err
	}
	changes, outcome, err := r.Resources.Commit(c, resource.Set{Operations: []resource.Operation{{Kind: kind, Verb: "update", ID: &id, Body: body}}})
	if err != nil {
		return out, err
	}
	resource.Applied(c, outcome, changes...)
	out.PublicKey, err = public(private)
	return out, err
}
