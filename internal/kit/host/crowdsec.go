package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"

	"edge.internal/gateway/internal/kit/value"
)

// DetectionPort is the port of the loopback where CrowdSec's local API answers. Its package writes the same one into the credentials
// of its own agent and tool.
const DetectionPort = 8080

// The logs that CrowdSec reads: a unit's in the journal, files where there is no journal, and those that the gateway writes for it.
const (
	// SSHService is systemd's name of sshd, which is no daemon of the gateway.
	SSHService = "ssh.service"
	// AuthLog is where sshd's words are on a machine without a journal.
	AuthLog = "/var/log/auth.log"
	// ProxyLog is where HAProxy's are there.
	ProxyLog = "/var/log/haproxy.log"
	// WAFLog has a line of JSON for each request that the web application firewall found fault with.
	WAFLog = "/var/log/gateway-waf/alerts.json"
	// DropLog has a line of JSON for each packet that the packet filter dropped and logged.
	DropLog = "/var/log/gateway/drops.json"
)

// DetectionName is the name of an account at CrowdSec.
type DetectionName struct{ value.Text[detectionName] }

type detectionName struct{}

var detectionNames = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

func (detectionName) Example() string { return "edge-proxy" }

func (detectionName) Parse(s string) (string, error) {
	if !detectionNames.MatchString(s) {
		return "", errors.New("must have 1 to 64 lower-case letters, digits and hyphens, and not begin with a hyphen")
	}
	return s, nil
}

var bouncerNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// IsBouncer complains about what is not the name of a bouncer. Those that others have made, such as the bouncer's package, are less strict
// than DetectionName.
func IsBouncer(name string) error {
	if !bouncerNames.MatchString(name) {
		return errors.New("must have 1 to 128 letters, digits, dots, hyphens and underscores, and begin with a letter or a digit")
	}
	return nil
}

// Detection is the running CrowdSec.
type Detection interface {
	// DetectionAsk asks CrowdSec's local API. What that refuses is a *DetectionRefused; a CrowdSec that does not run is ErrNotRunning.
	DetectionAsk(ctx context.Context, q DetectionQuestion) (json.RawMessage, error)
	// DetectionSpare has the firewall bouncer's tables drop the packets of whom it bans before anything else is done with them, forwarded
	// ones too, and let those of these addresses pass. A bouncer that has no tables, or not yet, is ErrNotRunning. All of this goes with the
	// tables when it ends.
	DetectionSpare(ctx context.Context, addresses []netip.Addr) error
	// DetectionDropped is of which of these addresses the kernel drops every packet. That the tables are not there is ErrNotRunning, and
	// that they are not as DetectionSpare leaves them is an error.
	DetectionDropped(ctx context.Context, of []netip.Addr) ([]netip.Addr, error)
}

// The firewall bouncer's tables, its chain in each, which drops packets that come to the gateway itself, and the set with whose. The gateway
// adds a chain that drops every packet of these, and the set with whose are let pass.
const (
	BouncerBans   = "gateway-bans"
	BouncerSpared = "gateway-spared"

	BouncerTable4, BouncerChain4, BouncerSet4 = "crowdsec", "crowdsec-chain", "crowdsec-blacklists"
	BouncerTable6, BouncerChain6, BouncerSet6 = "crowdsec6", "crowdsec6-chain", "crowdsec6-blacklists"
)

// DetectionVerb is one thing that the local API does.
type DetectionVerb string

// The verbs.
const (
	DetectionLogin          DetectionVerb = "login"           // a token for the account of a machine
	DetectionDecisions      DetectionVerb = "decisions"       // what is decided, for the key of a bouncer
	DetectionDecisionRemove DetectionVerb = "decision-remove" // end the decision with the id
	DetectionAlerts         DetectionVerb = "alerts"          // what was found
	DetectionAlert          DetectionVerb = "alert"           // the alert with the id
	DetectionAlertAdd       DetectionVerb = "alert-add"       // report something, and what is decided about it
)

// detectionVerbs is the closed list.
var detectionVerbs = map[DetectionVerb]struct {
	method, path string
	id           bool
}{
	DetectionLogin:          {http.MethodPost, "/v1/watchers/login", false},
	DetectionDecisions:      {http.MethodGet, "/v1/decisions", false},
	DetectionDecisionRemove: {http.MethodDelete, "/v1/decisions/", true},
	DetectionAlerts:         {http.MethodGet, "/v1/alerts", false},
	DetectionAlert:          {http.MethodGet, "/v1/alerts/", true},
	DetectionAlertAdd:       {http.MethodPost, "/v1/alerts", false},
}

// DetectionQuestion is a request to the local API.
type DetectionQuestion struct {
	Verb DetectionVerb
	// ID is the number of the decision or the alert, for the verbs that are about one.
	ID int64
	// Token is that of a machine, and Key that of a bouncer. A verb takes one of them.
	Token, Key string
	Query      url.Values
	Body       json.RawMessage
}

func (q DetectionQuestion) Request() (method, path string, err error) {
	verb, ok := detectionVerbs[q.Verb]
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

// DetectionRefused is a request that the local API refused.
type DetectionRefused struct {
	Status int
	Text   string
}

func (e *DetectionRefused) Error() string {
	return fmt.Sprintf("CrowdSec answers %d: %s", e.Status, FirstLines(e.Text))
}

// Unknown tells whether CrowdSec does not know who asks.
func (e *DetectionRefused) Unknown() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}
