package kea

import (
	"fmt"
	"net/netip"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"edge.internal/gateway/internal/kit/host/daemon/grammar"
)

// file has every field that the gateway ever writes.
type file struct {
	Dhcp4 struct {
		Hooks []struct {
			Library string `json:"library"`
		} `json:"hooks-libraries"`
		Control struct {
			Type string `json:"socket-type"`
			Name string `json:"socket-name"`
		} `json:"control-socket"`
		Leases struct {
			Type    string `json:"type"`
			Persist bool   `json:"persist"`
			Name    string `json:"name"`
			Cleanup int    `json:"lfc-interval"`
		} `json:"lease-database"`
		Loggers []struct {
			Name     string `json:"name"`
			Severity string `json:"severity"`
			Outputs  []struct {
				Output  string `json:"output"`
				Pattern string `json:"pattern"`
			} `json:"output_options"`
		} `json:"loggers"`
		Interfaces struct {
			Names   []string       `json:"interfaces"`
			Socket  string         `json:"dhcp-socket-type"`
			Retries uint32         `json:"service-sockets-max-retries"`
			Wait    int            `json:"service-sockets-retry-wait-time"`
			Context jsontext.Value `json:"user-context"` // which Kea stores and ignores
		} `json:"interfaces-config"`
		Checks struct {
			Leases string `json:"lease-checks"`
		} `json:"sanity-checks"`
		Expired struct {
			Hold int `json:"hold-reclaimed-time"`
		} `json:"expired-leases-processing"`
		Subnets []struct {
			ID        uint32       `json:"id"`
			Network   netip.Prefix `json:"subnet"`
			Interface string       `json:"interface"`
			Life      int          `json:"valid-lifetime"`
			Pools     []struct {
				Pool string `json:"pool"`
			} `json:"pools"`
			Options []struct {
				Name string `json:"name"`
				Data string `json:"data"`
			} `json:"option-data"`
			Reservations []struct {
				MAC  string `json:"hw-address"`
				IP   string `json:"ip-address"`
				Name string `json:"hostname"`
			} `json:"reservations"`
		} `json:"subnet4"`

		Mark          string   `json:"server-tag"`
		Authoritative bool     `json:"authoritative"`
		ByClientID    bool     `json:"match-client-id"`
		DefaultLife   int      `json:"valid-lifetime"`
		ShortestLife  int      `json:"min-valid-lifetime"`
		LongestLife   int      `json:"max-valid-lifetime"`
		Timers        bool     `json:"calculate-tee-times"`
		Identifiers   []string `json:"host-reservation-identifiers"`
		Global        bool     `json:"reservations-global"`
		InSubnet      bool     `json:"reservations-in-subnet"`
		OutOfPool     bool     `json:"reservations-out-of-pool"`
	}
}

var (
	loggers = regexp.MustCompile(`^kea-dhcp4(?:\.[a-z0-9]+)?$`)
	links   = regexp.MustCompile(`^` + grammar.Link + `$`)
	// options are the DHCP options that clients may get, with the form of their values.
	options = grammar.Following(map[string]string{
		"routers": `[0-9.]+`, "domain-name-servers": addresses, "ntp-servers": addresses, "domain-name": `[A-Za-z0-9_.-]+`,
	})
)

const addresses = `[0-9.]+(?:, [0-9.]+)*`

// admit refuses every hook library but the one for lease commands, every path but Kea's own, and every field that the gateway does
// not write.
func admit(text string) error {
	var f file
	// Kea itself would also accept comments, duplicate names, and includes.
	if err := json.Unmarshal([]byte(text), &f, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("not the gateway's JSON: %w", err)
	}
	paths := Where()
	for _, h := range f.Dhcp4.Hooks {
		if h.Library != paths.LeaseCommands {
			return fmt.Errorf("unexpected hook library %s", h.Library)
		}
	}
	if c := f.Dhcp4.Control; c.Name != "" && (c.Type != "unix" || c.Name != paths.Control) {
		return fmt.Errorf("unexpected control socket %s %s", c.Type, c.Name)
	}
	if l := f.Dhcp4.Leases; l.Type != "" && (l.Type != "memfile" || l.Name != paths.Leases) {
		return fmt.Errorf("unexpected lease database %s %s", l.Type, l.Name)
	}
	for _, l := range f.Dhcp4.Loggers {
		if !loggers.MatchString(l.Name) {
			return fmt.Errorf("unexpected logger %s", l.Name)
		}
		for _, o := range l.Outputs {
			if o.Output != "stdout" {
				return fmt.Errorf("unexpected log output %s", o.Output)
			}
		}
	}
	for _, name := range f.Dhcp4.Interfaces.Names {
		if !links.MatchString(name) {
			return fmt.Errorf("unexpected interface %q", name)
		}
	}
	for _, s := range f.Dhcp4.Subnets {
		for _, o := range s.Options {
			if err := options.Take([]string{o.Name, o.Data}); err != nil {
				return err
			}
		}
	}
	return nil
}
