package node

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// networkFile is the configuration that Debian's installer writes.
const networkFile = `auto lo
iface lo inet loopback
auto eth0
iface eth0 inet static
	address 198.51.100.%[1]d/24
iface eth0 inet6 static
	address 2001:db8:1::%[1]d/64
	accept_ra 0
	dad-attempts 0
`

// clockDropIn keeps chrony from setting the clock, which the node shares with this machine.
const clockDropIn = `[Service]
Environment=DAEMON_OPTS=-x
EnvironmentFile=/etc/default/chrony-test
`

// Prepare configures the Debian's network, and prevents effects on this machine.
func (n *Node) Prepare(ctx context.Context) error {
	for path, content := range map[string]string{
		"/etc/hosts":              "127.0.0.1 localhost\n127.0.1.1 node.example.net node\n::1 localhost\n",
		"/etc/network/interfaces": fmt.Sprintf(networkFile, n.number+1),
		"/etc/systemd/system/chrony.service.d/zz-test.conf": clockDropIn,
		"/etc/default/chrony-test":                          "DAEMON_OPTS=\"-F 1 -x\"\n",
	} {
		if err := n.Write(path, []byte(content)); err != nil {
			return err
		}
	}
	_, err := n.Sh(ctx, "systemctl restart networking")
	return err
}

// Make has make build a package, a repository, or both, into the folder dist; the repository is for nodes.
func Make(ctx context.Context, tree, dist string, env []string, targets ...string) error {
	build := exec.CommandContext(ctx, "make", append([]string{"-C", tree, "DIST=" + dist, "REPOSITORY_URL=file:/srv/apt"}, targets...)...)
	build.Env = append(os.Environ(), env...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("make %v: %w\n%s", targets, err, Tail(string(out)))
	}
	return nil
}

// Offer replaces the node's repository by the one in the folder dist, and updates its package lists.
func (n *Node) Offer(ctx context.Context, dist string) error {
	if _, err := n.Sh(ctx, "rm -rf /srv/apt"); err != nil {
		return err
	}
	apt := filepath.Join(dist, "apt")
	err := filepath.WalkDir(apt, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return n.Copy(path, "/srv/apt/"+strings.TrimPrefix(path, apt+"/"))
	})
	if err != nil {
		return err
	}
	// The Debian is not reached from here; what apt knows of it stays.
	_, err = n.Sh(ctx, `cp /srv/apt/gateway.asc /etc/apt/keyrings/
		cp /srv/apt/gateway.sources /etc/apt/sources.list.d/
		apt-get update -q -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/gateway.sources -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 2>&1`)
	return err
}

// Install installs packages without what they only recommend.
func (n *Node) Install(ctx context.Context, packages ...string) error {
	out, err := n.Run(ctx, append([]string{"apt-get", "install", "-y", "-q", "--no-install-recommends"}, packages...)...)
	if err != nil {
		return fmt.Errorf("installing %s: %w\n%s", strings.Join(packages, ", "), err, Tail(out))
	}
	return nil
}
