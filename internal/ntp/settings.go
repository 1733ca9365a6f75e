package ntp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Settings say whether and to whom the gateway serves time, and how it sets its own clock.
type Settings struct {
	resource.Meta
	ListenAddresses []value.Addr   `json:"listen_addresses" doc:"Addresses to serve on; if empty, loopback only. chrony binds one address per family: with several of one family it listens on all addresses, and the firewall opens only these."`
	AllowACL        []value.Prefix `json:"allow_acl" doc:"Networks that may ask for the time; if empty, none."`
	ServeClients    bool           `json:"serve_clients" doc:"Serve time to clients. When off, the daemon only sets the gateway's clock."`
	Makestep        Makestep       `json:"makestep" doc:"When to step the clock instead of slewing it: threshold in seconds and number of first updates; empty for never."`
	RTCSync         bool           `json:"rtcsync" doc:"Keep the hardware clock in sync."`
}

func (s *Settings) Label() string { return "ntp settings" }

var settings = resource.Singleton[Settings]{
	Name: "ntp.settings", Title: "NTP settings", Path: "/ntp/settings", Table: "ntp_settings", Feeds: feeds, Local: true,
}

const port = 123

func (s *Settings) openings() []policy.Opening {
	reachable := policy.Reachable(s.ListenAddresses)
	if !s.ServeClients || len(reachable) == 0 {
		return nil
	}
	return []policy.Opening{{Service: "ntp", Proto: policy.UDP, Port: port, Addresses: reachable}}
}

// Makestep is a threshold in seconds and a number of updates, as in "1.0 3".
type Makestep struct{ value.Text[makestep] }

type makestep struct{}

func (makestep) Example() string { return "1.0 3" }

func (makestep) Parse(s string) (string, error) {
	complaint := errors.New(`must be a threshold in seconds and a number of updates, for example "1.0 3". With -1 updates the clock is always stepped`)
	words := strings.Fields(s)
	if len(words) != 2 || strings.Trim(words[0], "0123456789.") != "" {
		return "", complaint
	}
	threshold, err := strconv.ParseFloat(words[0], 64)
	if err != nil || threshold <= 0 || threshold > 1e6 {
		return "", complaint
	}
	limit, err := strconv.Atoi(words[1])
	if err != nil || limit < -1 || limit > 1e6 {
		return "", complaint
	}
	return fmt.Sprintf("%s %d", decimal(threshold), limit), nil
}

// decimal formats a number without an exponent and with at least one decimal.
func decimal(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// parts returns the two words for the file.
func (m Makestep) parts() (threshold, limit value.Parsed) {
	t, l, _ := strings.Cut(m.String(), " ")
	return value.Must[number](t), value.Must[number](l)
}

// number is one word of a makestep.
type number struct{ value.Text[numberGrammar] }

type numberGrammar struct{}

func (numberGrammar) Example() string { return "1.0" }

func (numberGrammar) Parse(s string) (string, error) {
	if strings.Trim(s, "-0123456789.") != "" {
		return "", errors.New("must be a number")
	}
	return s, nil
}
