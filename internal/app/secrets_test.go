package app_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"edge.internal/gateway/internal/kit/kittest"
)

// With another master key every secret is marked as unreadable until it is entered again.
func TestSecretsOfAnotherMasterKey(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	cases := []struct {
		path      string
		body, new map[string]any
		again     []string
	}{
		{
			"/oidc/settings", map[string]any{"issuer": "https://id.example.com", "client_id": "gateway", "client_secret": "canary"},
			map[string]any{"client_secret": "another"}, []string{"client_secret"},
		},
		{"/backup-settings", map[string]any{"passphrase": "a long passphrase"}, map[string]any{"passphrase": "another long one"}, []string{"passphrase"}},
		{
			"/alerts", map[string]any{"kind": "webhook", "target": "https://hooks.example.com/", "settings": map[string]any{"headers": map[string]any{"X-Key": "canary"}}},
			map[string]any{"settings": map[string]any{"headers": map[string]any{"X-Key": "another"}}}, []string{"settings.headers.X-Key"},
		},
		{
			"/backup-remotes", map[string]any{"kind": "s3", "settings": map[string]any{
				"endpoint": "s3.example.com", "bucket": "backups", "access_key": "gateway", "secret_key": "canary"}},
			map[string]any{"settings": map[string]any{"endpoint": "s3.example.com", "bucket": "backups", "access_key": "gateway", "secret_key": "another"}},
			[]string{"settings.secret_key"},
		},
		{"/dns-providers", map[string]any{"name": "dns", "kind": "cloudflare", "secret": "canary"}, map[string]any{"secret": "another"}, []string{"secret"}},
		{"/radius/clients", map[string]any{"name": "switch", "address": "192.0.2.1", "secret": "canary"}, map[string]any{"secret": "another"}, []string{"secret"}},
	}
	singletons := []string{"/oidc/settings", "/backup-settings"}
	at := make([]string, len(cases))
	for i, c := range cases {
		at[i] = c.path
		if slices.Contains(singletons, c.path) {
			h.call(t, admin, http.MethodPut, c.path, c.body).Want(t, 200)
			continue
		}
		var made struct {
			ID string `json:"id"`
		}
		h.call(t, admin, http.MethodPost, c.path, c.body).Want(t, 201).Into(t, &made)
		at[i] += "/" + made.ID
	}
	// reported returns what a resource and its list say about its secrets.
	reported := func(i int) (again []string, configured any) {
		t.Helper()
		var row map[string]json.RawMessage
		h.call(t, admin, http.MethodGet, at[i], nil).Want(t, 200).Into(t, &row)
		if err := json.Unmarshal(row["enter_again"], &again); err != nil {
			t.Fatal(at[i], err)
		}
		if at[i] != cases[i].path {
			var list []struct {
				Again []string `json:"enter_again"`
			}
			if h.call(t, admin, http.MethodGet, cases[i].path, nil).Want(t, 200).Into(t, &list); len(list) != 1 || !slices.Equal(list[0].Again, again) {
				t.Errorf("%s: %q alone, and in the list %+v", at[i], again, list)
			}
		}
		if is, ok := row[cases[i].again[0]+"_configured"]; ok {
			configured = string(is)
		}
		return again, configured
	}
	for i := range cases {
		if again, configured := reported(i); len(again) != 0 || configured != nil && configured != "true" {
			t.Errorf("%s: %q, %v", at[i], again, configured)
		}
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	if err := h.Secrets.Adopt(key); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if again, configured := reported(i); !slices.Equal(again, c.again) || configured != nil && configured != "false" {
			t.Errorf("%s with another master key: %q, %v", at[i], again, configured)
		}
		h.call(t, admin, http.MethodPut, at[i], c.new).Want(t, 200)
		if again, configured := reported(i); len(again) != 0 || configured != nil && configured != "true" {
			t.Errorf("%s after it was entered: %q, %v", at[i], again, configured)
		}
	}
}
