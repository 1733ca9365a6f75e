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

type Detection interface {
	// DetectionAsk sends a request to CrowdSec's local API. If the API refuses it, it is a *Refused; if CrowdSec does not run, it
	// is daemon.ErrNotRunning.
	DetectionAsk(ctx context.Context, q Question) (json.RawMessage, error)
}

// Bans reads and extends the firewall bouncer's tables in the kernel.
type Bans interface {
	// DetectionSpare makes the bouncer's tables drop packets of banned addresses before anything else is done with them, also those
	// that are forwarded, and let the packets of these addresses pass. If the bouncer has no tables (yet), it is
	// daemon.ErrNotRunning. When the bouncer stops, this goes with its tables.
	DetectionSpare(ctx context.Context, addresses []netip.Addr) error
	// DetectionDropped returns which of the addresses are banned and not spared, so that the kernel drops all their packets.
	// Missing tables are daemon.ErrNotRunning; tables that are not as DetectionSpare leaves them are an error.
	DetectionDropped(ctx context.Context, of []netip.Addr) ([]netip.Addr, error)
}

var verbs = daemon.Verbs{"DetectionAsk": daemon.Local, "DetectionSpare": daemon.Repeatable, "DetectionDropped": daemon.Repeatable}

// ServedBans calls the verbs that the helper executes.
type ServedBans struct{ Helper daemon.Helper }

func (s ServedBans) DetectionSpare(ctx context.Context, addresses []netip.Addr) error {
	return daemon.Do(ctx, s.Helper, "DetectionSpare", addresses)
}

func (s ServedBans) DetectionDropped(ctx context.Context, of []netip.Addr) ([]netip.Addr, error) {
	return daemon.Ask[[]netip.Addr](ctx, s.Helper, "DetectionDropped", of)
}

// The firewall bouncer has a table for each family, with a set of the banned addresses and a chain that drops their packets to the
// gateway itself. The gateway adds BansChain, which drops all of their packets, and SparedSet, whose packets pass.
const (
	BansChain = "gateway-bans"
	SparedSet = "gateway-spared"

	Table4, Chain4, Set4 = "crowdsec", "crowdsec-chain", "crowdsec-blacklists"
	Table6, Chain6, Set6 = "crowdsec6", "crowdsec6-chain", "crowdsec6-blacklists"
)

type Verb string

const (
	Login          Verb = "login"           // get a token for a machine's account
	Decisions      Verb = "decisions"       // list decisions, with a bouncer's key
	DecisionRemove Verb = "decision-remove" // delete the decision with the id
	Alerts         Verb = "alerts"          // list alerts
	Alert          Verb = "alert"           // get the alert with the id
	AlertAdd       Verb = "alert-add"       // report alerts with their decisions
)

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

type Question struct {
	Verb Verb
	// ID is the number of the decision or the alert, for verbs about one.
	ID int64
	// Token authenticates a machine, and Key a bouncer. Each verb takes one of them.
	Token, Key string
	Query      url.Values
	Body       json.RawMessage
}

func (q Question) Request() (method, path string, err error) {
	verb, ok := requests[q.Verb]
	if !ok {
		return "", "", fmt.Errorf("unknown CrowdSec verb %q", string(q.Verb))
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

// Refused is an error status of the local API.
type Refused struct {
	Status int
	Text   string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("CrowdSec answers %d: %s", e.Status, daemon.FirstLines(e.Text))
}

// Unknown reports whether CrowdSec rejected the credentials.
func (e *Refused) Unknown() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}
