package tunnel

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/kit/value"
)

// maxItems is the maximum number of items in a list.
const maxItems = 256

// items splits a text at commas, and returns the distinct items in canonical form.
func items(text string, parse func(item string) (string, error)) (string, error) {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		canonical, err := parse(strings.TrimSpace(item))
		if err != nil {
			return "", err
		}
		if !slices.Contains(list, canonical) {
			list = append(list, canonical)
		}
		if len(list) > maxItems {
			return "", fmt.Errorf("must have at most %d items", maxItems)
		}
	}
	return strings.Join(list, ","), nil
}

// split returns the list of a text made by items.
func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// Key is a WireGuard key: 32 bytes in base64.
type Key struct{ value.Text[key] }

type key struct{}

func (key) Example() string { return "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=" }

func (key) Parse(s string) (string, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != 32 || len(s) != 44 || [32]byte(b) == [32]byte{} {
		return "", errors.New("must be a WireGuard key: 44 characters of base64, as wg genkey and wg pubkey print them")
	}
	return s, nil
}

// Bytes returns the key itself; the absent key is all zeros.
func (k Key) Bytes() (raw [32]byte) {
	b, _ := base64.StdEncoding.DecodeString(k.String())
	copy(raw[:], b)
	return raw
}

// keyOf encodes a key; all zeros become the absent key.
func keyOf(raw [32]byte) Key {
	if raw == [32]byte{} {
		return Key{}
	}
	return value.Must[Key](base64.StdEncoding.EncodeToString(raw[:]))
}

type Networks struct{ value.Text[networks] }

type networks struct{}

func (networks) Example() string { return "10.20.0.0/16,fd00:20::/48" }

func (networks) Parse(s string) (string, error) {
	return items(s, func(item string) (string, error) {
		n, err := value.Parse[value.Prefix](item)
		if err != nil {
			return "", errors.New("must be networks separated by commas, for example 10.20.0.0/16,fd00:20::/48")
		}
		return n.String(), nil
	})
}

func (n Networks) List() []value.Prefix {
	list := []value.Prefix{}
	for _, item := range split(n.String()) {
		if prefix, err := value.Parse[value.Prefix](item); err == nil {
			list = append(list, prefix)
		}
	}
	return list
}

// Addresses is a list of addresses with the length of their network.
type Addresses struct{ value.Text[addresses] }

type addresses struct{}

func (addresses) Example() string { return "10.8.0.1/24,fd00:8::1/64" }

func (addresses) Parse(s string) (string, error) {
	var networks []netip.Prefix
	return items(s, func(item string) (string, error) {
		p, err := netip.ParsePrefix(item)
		a := p.Addr()
		switch {
		case err != nil || a.Is4In6():
			return "", errors.New("must be addresses with their prefix length, separated by commas, for example 10.8.0.1/24,fd00:8::1/64")
		case a.IsUnspecified() || a.IsMulticast() || a.IsLoopback():
			return "", fmt.Errorf("must not contain %s, which no interface can have", a)
		case p.Bits() == 0:
			return "", fmt.Errorf("must not contain %s, whose network would be the whole internet", p)
		case a.Is4() && p.Bits() < 31 && (a == p.Masked().Addr() || a == value.Last(p.Masked())):
			return "", fmt.Errorf("must not contain %s, which is the network or broadcast address. Use another address, for example %s", p, netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits()))
		}
		for _, n := range networks {
			if n.Overlaps(p) {
				return "", fmt.Errorf("must not contain two addresses of the same network, %s", n)
			}
		}
		networks = append(networks, p.Masked())
		return p.String(), nil
	})
}

func (a Addresses) List() []netip.Prefix {
	var list []netip.Prefix
	for _, item := range split(a.String()) {
		if prefix, err := netip.ParsePrefix(item); err == nil {
			list = append(list, prefix)
		}
	}
	return list
}

func (a Addresses) Networks() []value.Prefix {
	list := []value.Prefix{}
	for _, p := range a.List() {
		if prefix, err := value.Parse[value.Prefix](p.Masked().String()); err == nil {
			list = append(list, prefix)
		}
	}
	return list
}

// Resolvers is a list of addresses of name servers.
type Resolvers struct{ value.Text[resolvers] }

type resolvers struct{}

func (resolvers) Example() string { return "10.8.0.1" }

func (resolvers) Parse(s string) (string, error) {
	return items(s, func(item string) (string, error) {
		a, err := value.Parse[value.Addr](item)
		if err != nil {
			return "", errors.New("must be IP addresses separated by commas, for example 10.8.0.1,fd00:8::1")
		}
		return a.String(), nil
	})
}

func (r Resolvers) List() []value.Addr {
	var list []value.Addr
	for _, item := range split(r.String()) {
		if addr, err := value.Parse[value.Addr](item); err == nil {
			list = append(list, addr)
		}
	}
	return list
}

// Endpoint is a host and port to dial.
type Endpoint struct{ value.Text[endpoint] }

type endpoint struct{}

func (endpoint) Example() string { return "vpn.example.net:51820" }

func (endpoint) Parse(s string) (string, error) {
	complaint := errors.New("must be a host and a port, for example vpn.example.net:51820 or [2001:db8::1]:51820")
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", complaint
	}
	h, err := value.Parse[value.Host](host)
	n, err2 := strconv.ParseUint(port, 10, 16)
	if err != nil || err2 != nil || n == 0 || strings.Trim(port, "0123456789") != "" {
		return "", complaint
	}
	if a, err := netip.ParseAddr(h.String()); err == nil && (a.IsUnspecified() || a.IsMulticast()) {
		return "", fmt.Errorf("must not contain %s, which cannot be reached", a)
	}
	return net.JoinHostPort(h.String(), strconv.FormatUint(n, 10)), nil
}

func (e Endpoint) parts() (host string, port uint16) {
	host, text, _ := net.SplitHostPort(e.String())
	n, _ := strconv.ParseUint(text, 10, 16)
	return host, uint16(n)
}

// at returns the endpoint of a host, if it is valid.
func at(host value.Host, port int) Endpoint {
	endpoint, _ := value.Parse[Endpoint](net.JoinHostPort(host.String(), strconv.Itoa(port)))
	return endpoint
}
