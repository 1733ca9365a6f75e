package lab

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
)

// operation is one step of a change set.
type operation struct {
	Kind string         `json:"kind"`
	Verb string         `json:"verb"`
	ID   string         `json:"id,omitempty"`
	Body map[string]any `json:"body"`
}

// adopt declares the links that the lab made, as an operator does after an installation: as the admin, through the front
// door, with one change set.
func (l *Lab) adopt(ctx context.Context, opts Options) error {
	if !l.Isolated() {
		return nil // the links are the machine's own
	}
	front := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // self-signed, and it is our own
	}}
	var login struct {
		Token string `json:"token"`
	}
	if err := ask(ctx, front, l.URL(), "", http.MethodPost, "/api/v1/auth/login", map[string]any{
		"email": opts.AdminEmail, "password": opts.AdminPassword, "issue_token": true,
	}, &login); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	var found []adoptable
	if err := ask(ctx, front, l.URL(), login.Token, http.MethodGet, "/api/v1/network/adoptable", nil, &found); err != nil {
		return fmt.Errorf("asking for links: %w", err)
	}
	operations, err := adoption(found, l.Site)
	if err != nil {
		return err
	}
	operations = append(operations, wayOut...)
	return ask(ctx, front, l.URL(), login.Token, http.MethodPost, "/api/v1/change-sets", map[string]any{
		"reason": "what the lab has connected", "operations": operations,
	}, nil)
}

// wayOut lets the lan side reach the wan side, behind the gateway's own address.
var wayOut = []operation{
	{Kind: "firewall.rule", Verb: "create", Body: map[string]any{"name": "LAN to the internet", "src_zone": "lan", "dst_zone": "wan", "action": "accept"}},
	{Kind: "firewall.nat-rule", Verb: "create", Body: map[string]any{"name": "LAN to the internet", "kind": "masquerade", "in_zone": "any", "out_zone": "wan", "protocol": "any"}},
}

// adoptable is a link of the machine that is not declared.
type adoptable struct {
	Name, Type string
	Addresses  []struct {
		Address string
		Prefix  int
		Dynamic bool
	}
}

// adoption declares the gateway's end of each wire, with its addresses.
func adoption(found []adoptable, site int) ([]operation, error) {
	var operations []operation
	for _, w := range sites[site] {
		n := slices.IndexFunc(found, func(a adoptable) bool { return a.Name == w.Link })
		if n < 0 {
			return nil, fmt.Errorf("the gateway does not offer %s for adoption", w.Link)
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		operations = append(operations, operation{Kind: "network.interface", Verb: "create", ID: id.String(), Body: map[string]any{
			"name": w.Link, "type": found[n].Type, "role": string(w.Side),
		}})
		for _, a := range found[n].Addresses {
			if !a.Dynamic {
				operations = append(operations, operation{Kind: "network.ip-address", Verb: "create", Body: map[string]any{
					"interface_id": id.String(), "address": a.Address, "prefix": a.Prefix,
				}})
			}
		}
	}
	return operations, nil
}
