package ids

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Settings say whether to look for attacks, in which logs, and what follows.
type Settings struct {
	resource.Meta
	Enabled     bool      `json:"enabled" doc:"Whether CrowdSec looks for attacks. When off, CrowdSec and its firewall bouncer are stopped."`
	Blocking    bool      `json:"blocking" doc:"Whether packets from banned addresses are dropped. When off, bans are only listed."`
	BanDuration Duration  `json:"ban_duration" required:"true" doc:"Duration of a ban, for example 90m or 4h."`
	Sources     Sources   `json:"sources" doc:"Which logs are read."`
	AllowList   []Allowed `json:"allow_list" doc:"Addresses that are never banned. The gateway's own addresses, its cluster and the trusted proxies of the WAF are always included."`
}

// Sources lists the logs that can be read.
type Sources struct {
	SSH          bool `json:"ssh" doc:"Failed logins of sshd."`
	HAProxy      bool `json:"haproxy" doc:"What the reverse proxy logs: requests that failed."`
	PacketFilter bool `json:"packet_filter" doc:"Packets that the firewall dropped and logged."`
	WAF          bool `json:"waf" doc:"Requests that the web application firewall blocked."`
}

// Allowed is an entry of the allow-list.
type Allowed struct {
	CIDR value.Prefix `json:"cidr" required:"true" doc:"Network, or a single address."`
	Note value.Line   `json:"note" doc:"Description, up to 200 characters."`
}

// noteMost is the maximum length of a note.
const noteMost = 200

func (s *Settings) Label() string { return "intrusion detection settings" }

func (s *Settings) Validate() error {
	var c check.List
	seen := map[value.Prefix]bool{}
	for i, a := range s.AllowList {
		switch {
		case a.CIDR.IsZero():
			c.Add("allow_list", "must have a cidr in item %d", i+1)
		case a.CIDR.Netip().Bits() == 0:
			c.Add("allow_list", "must not contain all addresses (item %d). Turn off blocking instead", i+1)
		case seen[a.CIDR]:
			c.Add("allow_list", "contains item %d twice", i+1)
		}
		seen[a.CIDR] = true
		c.That(utf8.RuneCountInString(a.Note.String()) <= noteMost, "allow_list", "has a note in item %d that is longer than %d characters", i+1, noteMost)
	}
	return c.Err()
}

// Duration is the length of a ban, in CrowdSec's format.
type Duration struct{ value.Text[duration] }

type duration struct{}

const (
	shortestBan = time.Minute
	longestBan  = 365 * 24 * time.Hour
)

var durations = regexp.MustCompile(`^([1-9][0-9]{0,7})([smhd])$`)

func (duration) Example() string { return "4h" }

// Parse also accepts days, which CrowdSec does not know.
func (duration) Parse(s string) (string, error) {
	m := durations.FindStringSubmatch(s)
	if m == nil {
		return "", errors.New("must be a number and a unit, for example 90m, 4h or 7d")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return "", err
	}
	if m[2] == "d" {
		s = fmt.Sprintf("%dh", n*24)
	}
	if d, err := time.ParseDuration(s); err != nil || d < shortestBan || d > longestBan {
		return "", errors.New("must be between 1m and 365d")
	}
	return s, nil
}

// Length returns the parsed duration; the zero Duration has none.
func (d Duration) Length() time.Duration {
	length, _ := time.ParseDuration(d.String())
	return length
}

var settings = resource.Singleton[Settings]{
	Name: "ids.settings", Title: "intrusion detection settings", Path: "/ids/settings", Table: "ids_settings", Feeds: feeds, Local: true,
	Unforeseen: map[resource.Area]string{resource.Connections: "Whom CrowdSec has banned, or will, is not looked up."},
}

// Switch switches CrowdSec on or off in the settings.
func (r *Room) Switch(c *httpd.Call, as resource.Alias, on bool) error {
	return r.Resources.Switch(c, as, settings.Name, "enabled", on)
}

// SwitchBouncer switches the firewall bouncer on or off in the settings. The bouncer needs CrowdSec; note says if it has to wait for
// that.
func (r *Room) SwitchBouncer(c *httpd.Call, as resource.Alias, on bool) (note string, err error) {
	if err := r.Resources.Switch(c, as, settings.Name, "blocking", on); err != nil {
		return "", err
	}
	s, err := r.settings.Load(c, r.DB)
	if err == nil && on && !s.Enabled {
		note = "The firewall bouncer starts when CrowdSec is turned on."
	}
	return note, err
}
