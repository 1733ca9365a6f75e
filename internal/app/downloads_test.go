package app_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
)

// AU-18: a viewer cannot download existing private keys or secrets. An administrator can.
func TestAU18SecretsAreForAdmins(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	_, viewer := h.user(t, admin, "viewer@example.net", "viewer")
	var tunnel, peer struct{ ID string }
	h.call(t, admin, http.MethodPost, "/tunnel/interfaces", map[string]any{"name": "wg0", "address_cidr": "10.8.0.1/24"}).Want(t, 201).Into(t, &tunnel)
	h.call(t, admin, http.MethodPost, "/tunnel/interfaces/"+tunnel.ID+"/peers", map[string]any{"name": "laptop"}).Want(t, 201).Into(t, &peer)
	viewerToken := h.token(t, viewer, "viewer")
	for _, path := range []string{"/peers/" + peer.ID + "/config", "/peers/" + peer.ID + "/qr", "/oidc/settings", "/api-tokens?all=true"} {
		for token, want := range map[string]int{"": 401, viewer: 403, viewerToken: 403, admin: 200} {
			req := httptest.NewRequest(http.MethodGet, httpd.Prefix+path, nil)
			req.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.Handler().ServeHTTP(w, req)
			if w.Code != want {
				t.Errorf("%s answers %d instead of %d: %s", path, w.Code, want, w.Body)
			}
		}
	}
}
