package appliance

import (
	"testing"

	"edge.internal/gateway/test/node"
)

// boot boots a bare Debian, which is removed with the test.
func boot(t *testing.T, release string) *node.Node {
	t.Helper()
	n, err := node.Boot(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("console:\n%s", n.Console())
		}
	})
	return n
}

// restart reboots the node, and waits until it is back.
func (g *appliance) restart(t *testing.T) {
	t.Helper()
	if err := g.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// copy copies a file of this machine into the node.
func (g *appliance) copy(t *testing.T, from, to string) {
	t.Helper()
	if err := g.Copy(from, to); err != nil {
		t.Fatal(err)
	}
}

// write writes a file in the node.
func (g *appliance) write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := g.Write(path, content); err != nil {
		t.Fatal(err)
	}
}
