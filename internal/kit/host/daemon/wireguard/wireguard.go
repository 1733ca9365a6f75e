// Package wireguard is what the kit knows of tunnels beside the kernel: where they are written down, and the program that does their work
// where the kernel cannot.
package wireguard

import (
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/value"
)

// Go does the work of the WireGuard link with the name of the operand, in the background.
const Go daemon.Command = "wireguard.go"

// LogSource is what that program says.
const LogSource daemon.LogSource = "tunnels"

const prefix = "tunnel/"

// State is what a tunnel shall be, for people to read.
func State(name value.IfName) daemon.Place { return daemon.Place(prefix + name.String()) }

// Daemon is its entry in the closed lists.
var Daemon = daemon.Daemon{
	Packages: []string{"wireguard-go"},
	Families: []daemon.Family{{
		Prefix: prefix, Folder: "/var/lib/gateway-helper/tunnels/", Suffix: ".conf", Mode: 0o600, Owner: "root", Group: "root",
		Names: func(name string) bool { return isLink(name) == nil },
	}},
	Commands: map[daemon.Command]daemon.CommandSpec{
		Go: {Argv: []string{"/usr/bin/wireguard-go"}, Timeout: 10 * time.Second, Asks: "the network", Operand: isLink},
	},
	Sources: map[daemon.LogSource]daemon.LogSourceSpec{LogSource: {Slice: `system-gateway\x2dwireguard.slice`}},
	Shown: []daemon.Shown{{
		Order: 7, Name: "tunnels", Title: "Tunnels",
		Description: "Tunnels that run in userspace.", Sources: []daemon.LogSource{LogSource},
	}},
}

func isLink(name string) error {
	_, err := value.Parse[value.IfName](name)
	return err
}
