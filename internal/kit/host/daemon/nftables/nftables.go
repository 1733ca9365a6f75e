// Package nftables is what the kit knows of the packet filter beside the kernel: the file that nft reads, and nft.
package nftables

import (
	"time"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/parts"
)

// Table is the kernel's table as nft reads it.
const Table daemon.Place = "packet-filter.table"

// Name is the name of the gateway's own table.
const Name = "gateway"

// The commands.
const (
	Check daemon.Command = "nft.check" // would the kernel take the staged Table?
	Load  daemon.Command = "nft.load"  // load the staged Table, in one transaction
)

// PacketFilter is whom commands talk to that ask the kernel's packet filter.
const PacketFilter = "the packet filter"

const binary = "/usr/sbin/nft"

// Daemon is its entry in the closed lists.
var Daemon = daemon.Daemon{
	Packages: []string{"nftables"},
	Places: map[daemon.Place]daemon.PlaceSpec{
		Table: {
			Path: "/var/lib/gateway-helper/packet-filter.nft", Mode: 0o600, Owner: "root", Group: "root", Grammar: admit, Part: admitPart,
			Split: func(text string) (parts.Text, error) { return nft.Split(Name, text) },
		},
	},
	Commands: map[daemon.Command]daemon.CommandSpec{
		Check: {Argv: []string{binary, "-c", "-f", "{packet-filter.table}"}, Timeout: 30 * time.Second, Asks: PacketFilter,
			Rights: daemon.CheckingApart,
			Staged: []daemon.Place{Table}},
		Load: {Argv: []string{binary, "-f", "{packet-filter.table}"}, Timeout: 30 * time.Second, Asks: PacketFilter,
			Rights: daemon.Loading},
	},
}
