// Package nftables describes the nft program to the kit, and the file that it reads.
package nftables

import (
	"time"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/parts"
)

// Table is the gateway's table in nft's syntax.
const Table daemon.Place = "packet-filter.table"

// Name is the name of the table in the kernel.
const Name = "gateway"

const (
	Check daemon.Command = "nft.check" // would the kernel accept the staged Table?
	Load  daemon.Command = "nft.load"  // load the staged Table, in one transaction
)

// PacketFilter names the kernel's packet filter in CommandSpec.Asks.
const PacketFilter = "the packet filter"

const binary = "/usr/sbin/nft"

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
