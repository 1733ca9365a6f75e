package account

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/kittest"
)

// deviceOf returns the cookie that marks a browser as one that has logged in.
func deviceOf(t *testing.T, a *kittest.Answer) *http.Cookie {
	t.Helper()
	for _, line := range a.Header.Values("Set-Cookie") {
		if c, err := http.ParseSetCookie(line); err == nil && c.Name == deviceCookie {
			return c
		}
	}
	t.Fatalf("no device in %v", a.Header)
	return nil
}

func (h *house) loginWith(t *testing.T, device, email, plain, from string) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, h.Handler(), http.MethodPost, "/auth/login", map[string]any{"email": email, "password": plain}, "X-Test-Client", from, "Cookie", deviceCookie+"="+device)
}

// A flood from an address does not lock out a browser there that has logged in before.
func TestDeviceIsCountedApartFromItsAddress(t *testing.T) {
	h := newHouse(t)
	a := h.login(t, admin, plain, here).Want(t, http.StatusOK)
	h.add(t, cookieOf(t, a), "b@example.net", "viewer")
	device := deviceOf(t, a)
	if !device.HttpOnly || !device.Secure || device.SameSite != http.SameSiteLaxMode || device.MaxAge != 90*24*60*60 || device.Path != "/api/v1/auth" {
		t.Errorf("cookie %+v", device)
	}
	for i := range 50 {
		h.login(t, fmt.Sprintf("nobody%d@example.net", i), "not the password", here).Want(t, http.StatusUnauthorized)
	}
	h.login(t, admin, plain, here).Want(t, http.StatusTooManyRequests)
	again := deviceOf(t, h.loginWith(t, device.Value, admin, plain, here).Want(t, http.StatusOK))
	// It belongs to one account, and only the gateway's signature counts.
	h.loginWith(t, device.Value, "b@example.net", plain, here).Want(t, http.StatusTooManyRequests)
	for _, forged := range []string{"", "x", device.Value + "x", strings.TrimPrefix(cookieOf(t, a), "gateway_session=")} {
		h.loginWith(t, forged, admin, plain, here).Want(t, http.StatusTooManyRequests)
	}
	// It grants no access.
	h.me(t, "gateway_session="+device.Value).Want(t, http.StatusUnauthorized)
	// It has as many guesses as an address, even if the cookie was issued again, and does not use up those of the address.
	for i := range 10 {
		with := device
		if i%2 == 0 {
			with = again
		}
		h.loginWith(t, with.Value, admin, "not the password", there).Want(t, http.StatusUnauthorized)
	}
	h.loginWith(t, again.Value, admin, plain, there).Want(t, http.StatusTooManyRequests)
	h.login(t, admin, plain, there).Want(t, http.StatusOK)
	// It expires.
	h.clock.Move(deviceTTL)
	for i := range 50 {
		h.login(t, fmt.Sprintf("nobody%d@example.net", i), "not the password", here).Want(t, http.StatusUnauthorized)
	}
	h.loginWith(t, device.Value, admin, plain, here).Want(t, http.StatusTooManyRequests)
}

// The second step and the routes of one's own account also recognize the device.
func TestDeviceInTheSecondStep(t *testing.T) {
	h := newHouse(t)
	first := h.login(t, admin, plain, here).Want(t, http.StatusOK)
	device := deviceOf(t, first).Value
	a := h.enrol(t, cookieOf(t, first))
	for i := range 50 {
		h.login(t, fmt.Sprintf("nobody%d@example.net", i), "not the password", here).Want(t, http.StatusUnauthorized)
	}
	var out struct{ Challenge string }
	h.loginWith(t, device, admin, plain, here).Want(t, http.StatusOK).Into(t, &out)
	h.secondStep(t, out.Challenge, a.code(t, h, 0), here).Want(t, http.StatusTooManyRequests)
	kittest.Call(t, h.Handler(), http.MethodPost, "/auth/login/totp", map[string]any{"challenge": out.Challenge, "code": a.code(t, h, 0)},
		"X-Test-Client", here, "Cookie", deviceCookie+"="+device).Want(t, http.StatusOK)
	change := map[string]any{"current_password": plain, "new_password": other}
	h.do(t, cookieOf(t, first), http.MethodPost, "/auth/change-password", change).Want(t, http.StatusTooManyRequests)
	h.do(t, cookieOf(t, first)+"; "+deviceCookie+"="+device, http.MethodPost, "/auth/change-password", change).Want(t, http.StatusOK)
}
