package lab_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// smallProxy answers on the ports of the gateway.
const smallProxy = `global
	stats socket /run/haproxy/admin.sock mode 600 level admin
	chroot /var/lib/haproxy
	user haproxy
	group haproxy
defaults
	mode http
	timeout connect 1s
	timeout client 5s
	timeout server 5s
frontend web
	bind :80
	bind :443
	bind :3443
	http-request return status 200
`

// TestHAProxy runs an HAProxy other than the machine's, with a configuration of its own.
func TestHAProxy(t *testing.T) {
	l := up(t, lab.Options{HAProxy: proxytest.Next(t)})
	units := l.Units()
	if err := units.Start(t.Context(), haproxy.Unit); err == nil {
		t.Fatal("it starts with the configuration of the machine's package")
	}
	if err := os.WriteFile(l.Path("/etc/haproxy/gateway/haproxy.cfg"), []byte(smallProxy), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := units.Start(t.Context(), haproxy.Unit); err != nil {
		t.Fatal(err)
	}
	wan := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		within := l.Within(lab.Wan, func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return nil
		})
		if within != nil {
			return nil, within
		}
		return conn, err
	}}}
	serves := func() {
		t.Helper()
		for _, address := range []string{"198.51.100.1:80", "198.51.100.1:443", "198.51.100.1:3443"} {
			res, err := wan.Get("http://" + address)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 200 {
				t.Errorf("%s: %s", address, res.Status)
			}
		}
	}
	serves()
	machine, err := machine.New(machine.Options{Root: strings.TrimSuffix(l.Path("/"), "/"), Units: units})
	if err != nil {
		t.Fatal(err)
	}
	now, err := machine.ProxyProcess(t.Context())
	if err != nil || !strings.HasPrefix(now.Version, "3.") {
		t.Errorf("%+v, %v", now, err)
	}
	if err := units.Restart(t.Context(), haproxy.Unit); err != nil {
		t.Fatal(err)
	}
	serves()
	// Workers end with their master, however it ends, and leave the ports and sockets to the next ones.
	state, err := units.State(t.Context(), haproxy.Unit)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, l, lab.Gateway, "kill", "-9", strconv.Itoa(state.PID))
	waittest.Until(t, "its workers end", func() bool { return sh(t, l, lab.Gateway, "sh", "-c", "pgrep -x haproxy || true") == "" })
	if err := units.Start(t.Context(), haproxy.Unit); err != nil {
		t.Fatal(err)
	}
	serves()
}
