package account

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/throttle"
)

const (
	flowCookie = "gateway_oidc_flow"
	flowPath   = httpd.Prefix + "/auth/oidc"
	flowTTL    = 5 * time.Minute
)

// signOnLimits limits unsuccessful single sign-ons from one place.
var signOnLimits = throttle.Limits{Pair: throttle.Guessing.Source, Source: throttle.Guessing.Source, Within: throttle.Guessing.Within}

// flow is a single sign-on in progress. It is stored in a signed cookie, so that beginning one stores nothing here.
type flow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	jwt.RegisteredClaims
}

// flows makes and reads the cookies.
type flows struct {
	key    []byte
	clock  clock.Clock
	parser *jwt.Parser
}

func newFlows(key []byte, c clock.Clock) *flows {
	return &flows{key: derive(key, "oidc flow"), clock: c, parser: newParser(c)}
}

func (f *flows) begin() (flow, *http.Cookie, error) {
	x := flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	x.ExpiresAt = jwt.NewNumericDate(f.clock.Now().Add(flowTTL))
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, x).SignedString(f.key)
	return x, flowCookieOf(token, flowTTL), err
}

// of returns the flow of a request, if its cookie is authentic, recent, and of this state.
func (f *flows) of(req *http.Request, state string) (x flow, ok bool) {
	c, err := req.Cookie(flowCookie)
	if err == nil {
		x, err = f.read(c.Value)
	}
	return x, err == nil && x.State != "" && subtle.ConstantTimeCompare([]byte(x.State), []byte(state)) == 1
}

func (f *flows) read(token string) (x flow, err error) {
	_, err = f.parser.ParseWithClaims(token, &x, func(*jwt.Token) (any, error) { return f.key, nil })
	return x, err
}

// flowCookieOf returns the cookie of a flow; a negative age deletes it.
func flowCookieOf(token string, age time.Duration) *http.Cookie {
	return &http.Cookie{Name: flowCookie, Value: token, Path: flowPath, MaxAge: int(age.Seconds()), HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
}
