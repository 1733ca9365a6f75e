package lab

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
)

// adopt declares the links that the lab has created, as an operator does after an installation: as the administrator, through the
// console's port, with one request. On a gateway that is not a joined node, it also lets the lan side reach the wan side.
func (l *Lab) adopt(ctx context.Context) error {
	if !l.Isolated() {
		return nil // the links are the machine's own
	}
	front := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // self-signed, and it is our own
	}}
	var login struct {
		Token string `json:"token"`
	}
	if err := ask(ctx, front, l.URL(), "", http.MethodPost, "/api/v1/auth/login", map[string]any{
		"email": l.up.opts.AdminEmail, "password": l.up.opts.AdminPassword, "issue_token": true,
	}, &login); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	var networks []map[string]any
	for _, w := range l.wires() {
		networks = append(networks, map[string]any{
			"name": w.Link, "role": w.Zone, "addresses": w.Gateway, "internet": w.Side == Lan && l.Node <= 1,
		})
	}
	return ask(ctx, front, l.URL(), login.Token, http.MethodPost, "/api/v1/network/setup", map[string]any{
		"reason": "what the lab has connected", "networks": networks,
	}, nil)
}
