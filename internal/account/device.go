package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/throttle"
)

const (
	deviceCookie = "gateway_device"
	devicePath   = httpd.Prefix + "/auth"
	deviceTTL    = 90 * 24 * time.Hour
)

// devices makes and reads the cookies of browsers that have logged in before. The cookie grants no access: it lets the next attempts at
// the same account be counted and queued separately.
type devices struct {
	key    []byte
	clock  clock.Clock
	parser *jwt.Parser
}

func newDevices(key []byte, c clock.Clock) *devices {
	return &devices{key: derive(key, "device"), clock: c, parser: newParser(c)}
}

// derive returns a separate key for each purpose, so that a signature for one is useless for another.
func derive(key []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

func newParser(c clock.Clock) *jwt.Parser {
	return jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(c.Now))
}

// of returns the device of a request, if it has logged in to the account before.
func (d *devices) of(req *http.Request, account string) (id uuid.UUID, ok bool) {
	c, err := req.Cookie(deviceCookie)
	if err != nil {
		return id, false
	}
	var claims jwt.RegisteredClaims
	if _, err := d.parser.ParseWithClaims(c.Value, &claims, func(*jwt.Token) (any, error) { return d.key, nil }); err != nil || claims.Subject != account {
		return id, false
	}
	id, err = uuid.Parse(claims.ID)
	return id, err == nil
}

// cookie returns the cookie for a browser that has logged in to the account. An existing device keeps its id.
func (d *devices) cookie(req *http.Request, account string) (*http.Cookie, error) {
	id, ok := d.of(req, account)
	if !ok {
		id = uuid.New()
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		ID: id.String(), Subject: account, ExpiresAt: jwt.NewNumericDate(d.clock.Now().Add(deviceTTL)),
	}).SignedString(d.key)
	return &http.Cookie{
		Name: deviceCookie, Value: token, Path: devicePath, MaxAge: int(deviceTTL.Seconds()),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}, err
}

// source returns where an attempt at an account comes from, and its queue for hashing: a device that has logged in to the account before,
// or an address.
func (r *Room) source(c *httpd.Call, account string) (throttle.Source, password.Place) {
	if id, ok := r.devices.of(c.Request, account); ok {
		from := throttle.Device(id)
		return from, password.Place{Lane: from.Lane(), Known: true}
	}
	from := throttle.Address(c.Client())
	return from, password.Place{Lane: from.Lane(), Known: c.Actor.Session != uuid.Nil || r.guesses.Known(from)}
}
