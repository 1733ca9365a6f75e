package crowdsec

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Detection is the running CrowdSec.
type Detection interface {
	// DetectionAsk asks CrowdSec's local API. What that refuses is a *Refused; a CrowdSec that does not run is daemon.ErrNotRunning.
	DetectionAsk(ctx context.Context, q Question) (json.RawMessage, error)
}

// Bans are the kernel's tables of the running firewall bouncer.
type Bans interface {
	// DetectionSpare has the firewall bouncer's tables drop the packets of whom it bans before anything else is done with them, forwarded
	// ones too, and let those of these addresses pass. A bouncer that has no tables, or not yet, is daemon.ErrNotRunning. All of this goes
	// with the tables when it ends.
	DetectionSpare(ctx context.Context, addresses []netip.Addr) error
	// DetectionDropped returns those of the addresses of which the kernel drops every packet. Missing tables are daemon.ErrNotRunning; tables
	// that are not as DetectionSpare leaves them are an error.
	DetectionDropped(ctx context.Context, of []netip.Addr) ([]netip.Addr, error)
}

var verbs = daemon.Verbs{"DetectionAsk": daemon.Local, "DetectionSpare": daemon.Repeatable, "DetectionDropped": daemon.Repeatable}

// ServedBans are the bouncer's tables, by way of the helper.
type ServedBans struct{ Helper daemon.Helper }

func (s ServedBans) DetectionSpare(ctx context.Context, addresses []netip.Addr) error {
	return daemon.Do(ctx, s.Helper, "DetectionSpare", addresses)
}

func (s ServedBans) DetectionDropped(ctx context.Context, of []netip.Addr) ([]netip.Addr, error) {
	return daemon.Ask[[]netip.Addr](ctx, s.Helper, "DetectionDropped", of)
}

// The firewall bouncer's tables, its chain in each, which drops packets that come to the gateway itself, and the set with whose. The
// gateway adds a chain that drops every packet of these, and the set with whose are let pass.
const (
	BansChain = "gateway-bans"
	SparedSet = "gateway-spared"

	Table4, Chain4, Set4 = "crowdsec", "crowdsec-chain", "crowdsec-blacklists"
	Table6, Chain6, Set6 = "crowdsec6", "crowdsec6-chain", "crowdsec6-blacklists"
)

// Verb is one thing that the local API does.
type Verb string

// The verbs.
const (
	Login          Verb = "login"           // a token for the account of a machine
	Decisions      Verb = "decisions"       // what is decided, for the key of a bouncer
	DecisionRemove Verb = "decision-remove" // end the decision with the id
	Alerts         Verb = "alerts"          // what was found
	Alert          Verb = "alert"           // the alert with the id
	AlertAdd       Verb = "alert-add"       // report something, and what is decided about it
)

// requests is the closed list.
var requests = map[Verb]struct {
	method, path string
	id           bool
}{
	Login:          {http.MethodPost, "/v1/watchers/login", false},
	Decisions:      {http.MethodGet, "/v1/decisions", false},
	DecisionRemove: {http.MethodDelete, "/v1/decisions/", true},
	Alerts:         {http.MethodGet, "/v1/alerts", false},
	Alert:          {http.MethodGet, "/v1/alerts/", true},
	AlertAdd:       {http.MethodPost, "/v1/alerts", false},
}

// Question is a request to the local API.
type Question struct {
	Verb Verb
	// ID is the number of the decision or the alert, for the verbs that are about one.
	ID int64
	// Token is that of a machine, and Key that of a bouncer. A verb takes one of them.
	Token, Key string
	Query      url.Values
	Body       json.RawMessage
}

func (q Question) Request() (method, path string, err error) {
	verb, ok := requests[q.Verb]
	if !ok {
		return "", "", fmt.Errorf("no verb %q for CrowdSec in the list", string(q.Verb))
	}
	path = verb.path
	if verb.id {
		path += strconv.FormatInt(q.ID, 10)
	}
	if len(q.Query) > 0 {
		path += "?" + q.Query.Encode()
	}
	return verb.method, path, nil
}

// Refused is a request that the local API refused.
type Refused struct {
	Status int
	Text   string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("CrowdSec answers %d: %s", e.Status, daemon.FirstLines(e.Text))
}

// Unknown tells whether CrowdSec does not know who asks.
func (e *Refused) Unknown() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}
