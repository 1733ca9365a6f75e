package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// reaches waits until a side can reach an address, or cannot.
func reaches(t *testing.T, l *lab.Lab, side lab.Side, address string, want bool) {
	t.Helper()
	waittest.UntilNil(t, fmt.Sprintf("%s reaches %s: %t", l.Name(), address, want), func() error {
		cmd, err := l.Command(t.Context(), side, "ping", "-c1", "-W1", address)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if (err == nil) != want {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
}

func TestNodes(t *testing.T) {
	dir := stateDir(t)
	one := up(t, lab.Options{Dir: dir, Nodes: 2})
	two := one.All()[1]
	if !strings.HasPrefix(one.URL(), "https://127.0.0.1:") || !strings.HasPrefix(two.URL(), "https://127.0.0.2:") {
		t.Errorf("the UIs are at %s and %s", one.URL(), two.URL())
	}
	inside := append(namespaces(t, one), namespaces(t, two)...)
	id := sh(t, one, lab.Gateway, "cat", "/etc/machine-id")
	if other := sh(t, two, lab.Gateway, "cat", "/etc/machine-id"); id == other {
		t.Error("both are machine " + id)
	}
	for _, l := range []*lab.Lab{one, two} {
		reaches(t, l, lab.Gateway, "198.51.100.2", true)
		reaches(t, l, lab.Gateway, "10.10.0.2", true)
	}
	reaches(t, one, lab.Gateway, "10.99.0.12", true)
	reaches(t, two, lab.Gateway, "fd00:99::1", true)
	reaches(t, one, lab.Lan, "198.51.100.2", true)

	t.Run("another process", func(t *testing.T) {
		found, err := lab.Find(dir)
		if err != nil {
			t.Fatal(err)
		}
		node, side := found.At("gateway2")
		if name := sh(t, node, side, "hostname"); name != "gateway2" {
			t.Errorf("gateway2 is %s", name)
		}
		node, side = found.At("lan")
		if links := sh(t, node, side, "ip", "-brief", "link", "show", "type", "bridge"); !strings.HasPrefix(links, "eth0 ") {
			t.Errorf("the lan's switch is %q", links)
		}
		if node, side := found.At("gateway3"); side == lab.Gateway {
			t.Errorf("gateway3 is %s", node.Name())
		}
	})
	t.Run("cables", func(t *testing.T) {
		if err := two.Cut(lab.Cluster); err != nil {
			t.Fatal(err)
		}
		reaches(t, one, lab.Gateway, "10.99.0.12", false)
		reaches(t, two, lab.Gateway, "198.51.100.2", true)
		if err := two.Heal(lab.Cluster); err != nil {
			t.Fatal(err)
		}
		reaches(t, one, lab.Gateway, "10.99.0.12", true)
		if err := two.Cut(lab.Gateway); err == nil {
			t.Error("a cable to itself")
		}
	})
	t.Run("programs", func(t *testing.T) {
		alive := func() bool {
			cmd, err := two.Command(t.Context(), lab.Gateway, "timeout", "2", "psql", "-XAtqh", "/run/postgresql", "-U", "gateway", "-c", "SELECT 1")
			if err != nil {
				t.Fatal(err)
			}
			return cmd.Run() == nil
		}
		answers := func(when string) {
			t.Helper()
			waittest.Until(t, "PostgreSQL answers "+when, alive)
		}
		answers("at first")
		if err := two.Signal(t.Context(), lab.PostgreSQL, lab.Pause); err != nil {
			t.Fatal(err)
		}
		if alive() {
			t.Error("PostgreSQL answers while it is paused")
		}
		for _, signal := range []string{lab.Resume, lab.Kill} {
			if err := two.Signal(t.Context(), lab.PostgreSQL, signal); err != nil {
				t.Fatal(err)
			}
			answers("after " + signal)
		}
	})
	t.Run("power", func(t *testing.T) {
		if err := one.Crash(); err != nil {
			t.Fatal(err)
		}
		reaches(t, two, lab.Gateway, "10.99.0.1", false)
		reaches(t, two, lab.Gateway, "10.10.0.2", true)
		if err := one.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		reaches(t, two, lab.Gateway, "10.99.0.1", true)
		reaches(t, one, lab.Lan, "198.51.100.2", true)
	})
	inside = append(inside, namespaces(t, one)...)
	if err := one.Down(); err != nil {
		t.Fatal(err)
	}
	gone(t, dir, inside)

	// The first node is the only one of a lab with one node.
	again := up(t, lab.Options{Dir: dir})
	if now := sh(t, again, lab.Gateway, "cat", "/etc/machine-id"); now != id {
		t.Errorf("the machine %s has become %s", id, now)
	}
	if name := sh(t, again, lab.Gateway, "hostname"); name != "gateway" {
		t.Errorf("it is called %s", name)
	}
}
