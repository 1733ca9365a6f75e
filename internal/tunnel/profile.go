package tunnel

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"rsc.io/qr"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

func (r *Room) mountProfile() {
	r.Router.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "tunnel.peer.config", Tag: "tunnel", Summary: "Configuration of a peer for the WireGuard app, if the gateway knows its private key"},
		Method: http.MethodGet, Path: "/peers/{id}/config", Policy: httpd.AdminRead, In: reflect.TypeFor[byID](), MIME: "text/plain",
	}, func(c *httpd.Call) error {
		name, text, err := r.profileText(c)
		if err != nil {
			return err
		}
		c.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name+".conf"))
		return c.ReplyRaw("text/plain; charset=utf-8", text)
	})
	r.Router.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "tunnel.peer.qr", Tag: "tunnel", Summary: "Configuration of a peer as a QR code"},
		Method: http.MethodGet, Path: "/peers/{id}/qr", Policy: httpd.AdminRead, In: reflect.TypeFor[byID](), MIME: "image/png",
	}, func(c *httpd.Call) error {
		_, text, err := r.profileText(c)
		if err != nil {
			return err
		}
		code, err := qr.Encode(string(text), qr.L)
		if err != nil {
			return fault.Wrap(fault.Conflict, err, "The configuration is too long for a QR code. Download it as a file, or give the interface fewer client_routes.")
		}
		return c.ReplyRaw("image/png", code.PNG())
	})
}

// profileText returns the configuration of the requested peer, with a file name.
func (r *Room) profileText(c *httpd.Call) (name string, text []byte, err error) {
	id, err := httpd.PathID(c.Request, "id")
	if err != nil {
		return "", nil, err
	}
	p, err := r.peers.Get(c, r.DB, id)
	if err != nil {
		return "", nil, err
	}
	profile, err := r.profile(c, p)
	if err != nil {
		return "", nil, err
	}
	text, err = RenderProfile(profile)
	return fileName(p.Name.String()), text, err
}

// profile assembles a peer's own configuration.
func (r *Room) profile(ctx context.Context, p *Peer) (Profile, error) {
	if !p.PrivateKey.Set() {
		return Profile{}, fault.New(fault.Conflict, "The gateway does not know the private key of %s, which generated its own keys. Use the configuration on the device, or let the gateway generate a new key pair.", p.Name)
	}
	i, err := r.interfaces.Get(ctx, r.DB, p.InterfaceID)
	if err != nil {
		return Profile{}, err
	}
	x := Profile{Addresses: addressesOf(p, i), DNS: i.DNS.List(), PublicKey: i.PublicKey, AllowedIPs: i.AddressCIDR.Networks(), Keepalive: p.Keepalive}
	if len(x.Addresses) == 0 {
		return Profile{}, fault.New(fault.Conflict, "%s has no address. Add one to its allowed_ips, for example 10.8.0.2/32.", p.Name)
	}
	for _, n := range i.ClientRoutes.List() {
		if !slices.Contains(x.AllowedIPs, n) {
			x.AllowedIPs = append(x.AllowedIPs, n)
		}
	}
	if i.MTU != nil {
		x.MTU = *i.MTU
	}
	host := i.EndpointHost
	if host.IsZero() {
		if host, err = value.Parse[value.Host](r.deps.FQDN()); err != nil {
			return Profile{}, fault.New(fault.Conflict, "The endpoint of %s is not known. Set its endpoint_host.", i.Name)
		}
	}
	x.Endpoint = at(host, i.ListenPort)
	if x.PrivateKey, err = r.open(p.PrivateKey, peerTable, "private_key", p.ID); err != nil {
		return Profile{}, err
	}
	x.PresharedKey, err = r.open(p.PresharedKey, peerTable, "preshared_key", p.ID)
	return x, err
}

// addressesOf returns a peer's addresses in the tunnel: single ones in the interface's own networks, or else any.
func addressesOf(p *Peer, i *Interface) []value.Prefix {
	var inside, all []value.Prefix
	for _, n := range p.AllowedIPs.List() {
		if !single(n) {
			continue
		}
		all = append(all, n)
		if slices.ContainsFunc(i.AddressCIDR.Networks(), func(own value.Prefix) bool { return own.Netip().Contains(n.Netip().Addr()) }) {
			inside = append(inside, n)
		}
	}
	if len(inside) > 0 {
		return inside
	}
	return all
}

// fileName makes a file name of a peer's name. WireGuard's apps use it as the name of the tunnel, so it is limited to Linux's length of
// interface names.
func fileName(name string) string {
	keep := func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", r) {
			return r
		}
		return '-'
	}
	text := strings.Map(keep, name)
	text = strings.Trim(text[:min(len(text), 15)], "-")
	if text == "" {
		return "tunnel"
	}
	return text
}
