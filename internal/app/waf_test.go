package app

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/spoe/spoetest"
)

// wafStatus polls gateway-waf until it returns its status.
func wafStatus(t *testing.T, root string) (s agent.Status) {
	t.Helper()
	client := httpd.SocketClient(filepath.Join(root, host.WAFSocket), time.Minute)
	waittest.UntilNil(t, "gateway-waf gets ready", func() error {
		resp, err := client.Get("http://waf/status")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
			t.Fatal(err)
		}
		return nil
	})
	return s
}

// Without its database it starts with its last configuration, and serves only the permitted users.
func TestWAFStartsWithTheLastConfiguration(t *testing.T) {
	root := t.TempDir()
	for _, folder := range []string{"/var/lib/gateway-waf", "/var/log/gateway-waf", "/run/gateway-waf"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const domain = "01890000-0000-7000-8000-000000000001"
	if err := os.WriteFile(filepath.Join(root, "/var/lib/gateway-waf/config.json"),
		[]byte(`[{"domain_id":"`+domain+`","updated_at":"2026-01-02T03:04:05Z","mode":"blocking","paranoia_level":1}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(peers string) (address string, stop func()) {
		t.Helper()
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address = free.Addr().String()
		free.Close()
		cfg := WAFConfig{Config: Config{DB: "postgres:///gateway?user=gateway-waf&host=" + root, Root: root, Listen: address, LogLevel: "error"}, Peers: peers}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- RunWAF(ctx, cfg) }()
		return address, func() {
			t.Helper()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}

	address, stop := start(strconv.Itoa(os.Getuid()))
	if s := wafStatus(t, root); s.Source != agent.FromFile || s.Domains != 1 || s.Engines != 1 || s.Builds == 0 || s.Version != Version || s.Since.IsZero() || s.Loaded.IsZero() {
		t.Errorf("%+v", s)
	}
	if info, err := os.Stat(filepath.Join(root, host.WAFSocket)); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
	open := func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	}
	waittest.UntilNil(t, "it listens", open)
	set, err := spoetest.Dial(t, address).Ask("waf-req",
		spoetest.Arg{Name: "id", Value: "1"}, spoetest.Arg{Name: "domain", Value: domain}, spoetest.Arg{Name: "src", Value: netip.MustParseAddr("192.0.2.1")}, spoetest.Arg{Name: "sport", Value: 1},
		spoetest.Arg{Name: "dst", Value: netip.MustParseAddr("192.0.2.2")}, spoetest.Arg{Name: "dport", Value: 443}, spoetest.Arg{Name: "method", Value: "GET"},
		spoetest.Arg{Name: "url", Value: "/?id=1%27+or+%271%27%3D%271"}, spoetest.Arg{Name: "ver", Value: "1.1"}, spoetest.Arg{Name: "hdrs", Value: spoetest.Block("host", "www.example.com")},
		spoetest.Arg{Name: "body", Value: []byte{}}, spoetest.Arg{Name: "eom", Value: true})
	if err != nil || set["verdict"] != agent.Deny {
		t.Errorf("%v, %v", set, err)
	}
	if s := wafStatus(t, root); s.Inspected != 1 || s.Denied != 1 {
		t.Errorf("%+v", s)
	}
	stop()
	if content, err := os.ReadFile(filepath.Join(root, "/var/log/gateway-waf/alerts.json")); err != nil || len(content) == 0 {
		t.Errorf("%s, %v", content, err)
	}

	address, stop = start("65534")
	wafStatus(t, root)
	waittest.UntilNil(t, "it listens again", open)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("a stranger: %d bytes, %v", n, err)
	}
	stop()
}
