package appliance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
)

type service struct {
	Name, Active, Detail string
	Since                *time.Time
}

func (g *appliance) service(t *testing.T, name string) service {
	t.Helper()
	s, err := g.askService(t, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (g *appliance) askService(t *testing.T, name string) (service, error) {
	t.Helper()
	a, err := g.Do(t.Context(), http.MethodGet, "/system/services", nil)
	if err != nil {
		return service{}, err
	}
	var found struct{ Services []service }
	if err := json.Unmarshal(a.Data, &found); err != nil {
		return service{}, fmt.Errorf("%d: %s: %w", a.Status, a.Body, err)
	}
	for _, s := range found.Services {
		if s.Name == name {
			return s, nil
		}
	}
	return service{}, fmt.Errorf("no service %s: %d %s", name, a.Status, a.Body)
}

// Services show the states and times of systemd, and a failed one has the reason.
func services(t *testing.T, g *appliance) {
	for kind, name := range map[string]string{"reverse-proxy": "haproxy", "forward-proxy": "squid", "dns": "unbound", "ntp": "chrony", "scheduler": "gateway-scheduler"} {
		before := g.service(t, name)
		if before.Active != "active" || before.Since == nil {
			t.Fatalf("%+v", before)
		}
		if kind == "reverse-proxy" {
			// The answer is sent before this connection and those of the next moment are cut.
			g.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": kind}, 200, nil)
			waittest.UntilNil(t, "the reverse proxy is restarted and carries the console again", func() error {
				now, err := g.askService(t, name)
				if err == nil && (now.Active != "active" || now.Since == nil || !now.Since.After(*before.Since)) {
					err = fmt.Errorf("%+v", now)
				}
				return err
			})
		} else {
			var outcome struct{ Active, Error string }
			g.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": kind}, 200, &outcome)
			if outcome.Active != "active" || outcome.Error != "" {
				t.Fatalf("restart of %s: %+v", kind, outcome)
			}
		}
		if after := g.service(t, name); after.Active != "active" || after.Since == nil || !after.Since.After(*before.Since) {
			t.Errorf("%s was not restarted: %+v, %+v", kind, before, after)
		}
	}
	if s := g.service(t, "packet-filter"); s.Active != "kernel-loaded" {
		t.Errorf("%+v", s)
	}
	for _, body := range []string{"sshd", "haproxy;id", "../x"} {
		g.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": body}, 400, nil)
	}
	g.Must(t, http.MethodPost, "/system/service-toggle", fields{"service": "sshd", "enabled": true}, 400, nil)
	g.allLive(t)

	g.write(t, "/etc/systemd/system/unbound.service.d/zz-broken.conf", []byte("[Service]\nExecStartPre=/bin/sh -c 'echo the disk is on fire; exit 7'\n"))
	g.sh(t, "systemctl daemon-reload")
	var outcome struct{ Active, Error string }
	g.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": "dns"}, 200, &outcome)
	if !strings.Contains(outcome.Error, "the disk is on fire") {
		t.Errorf("the cause is not told: %+v", outcome)
	}
	g.sh(t, "rm /etc/systemd/system/unbound.service.d/zz-broken.conf; systemctl daemon-reload")
	g.Must(t, http.MethodPost, "/system/service-restart", fields{"kind": "dns"}, 200, &outcome)
	g.allLive(t)

	// A process that holds a daemon's port is named, also one of root.
	g.sh(t, `systemctl mask --runtime --now unbound
		systemd-run --quiet --unit=squatter --property=Type=exec perl -MIO::Socket::INET -e 'IO::Socket::INET->new(LocalAddr => "10.20.0.1:53", Listen => 1) and sleep'
		timeout 30 sh -c 'until ss -tln | grep -q 10.20.0.1:53; do sleep 0.1; done'
		systemctl unmask --runtime unbound`)
	waittest.UntilNil(t, "the holder of port 53 is named", func() error {
		if c := g.WaitState(t, "dns", "degraded", 30*time.Second); !strings.HasPrefix(c.LastError, "TCP 53 on 10.20.0.1 is used by perl (pid ") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	g.sh(t, "systemctl stop squatter")
	g.allLive(t)

	// A modified packet filter is restored, even if the tables of others change at the same time.
	g.sh(t, "nft add table inet other; nft flush chain inet gateway input")
	waittest.UntilNil(t, "the packet filter is back", func() error {
		return g.tells(t, "anti-lockout", "nft", "list", "chain", "inet", "gateway", "input")
	})
	g.allLive(t)

	// Killed programs restart, and continue their work.
	for _, unit := range []string{"gateway-helper", "gateway-api"} {
		before := g.pid(t, unit)
		g.sh(t, "kill -9 "+before)
		g.another(t, unit, before)
		g.waitUp(t)
		g.live(t, http.MethodPost, "/ntp/pools", fields{"kind": "server", "address": map[string]string{"gateway-helper": "192.0.2.124", "gateway-api": "192.0.2.125"}[unit]})
		g.allLive(t)
	}
	g.serves(t)
}
