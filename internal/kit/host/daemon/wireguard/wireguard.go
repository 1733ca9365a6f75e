// Package wireguard describes tunnels to the kit: their files, and wireguard-go, which replaces WireGuard in a kernel without it.
package wireguard

import (
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/value"
)

// Go starts wireguard-go in the background for a link with this name.
const Go daemon.Command = "wireguard.go"

// LogSource is wireguard-go's log in the journal.
const LogSource daemon.LogSource = "tunnels"

const prefix = "tunnel/"

// State is the intended state of a tunnel, for people to read.
func State(name value.IfName) daemon.Place { return daemon.Place(prefix + name.String()) }

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
	LogViews: []daemon.LogView{{
		Order: 7, Name: "tunnels", Title: "Tunnels",
		Description: "Tunnels that run in userspace.", Sources: []daemon.LogSource{LogSource},
	}},
}

func isLink(name string) error {
	_, err := value.Parse[value.IfName](name)
	return err
}
