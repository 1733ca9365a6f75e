package root

import (
	"context"
	_ "embed"
	"errors"
	"io/fs"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
)

// firstTable is the packet filter of a machine on which the gateway has not applied one yet.
//
//go:embed first.nft
var firstTable []byte

// LoadPacketFilter loads the kept table before the network is up. If there is none, or it does not load, only the console and SSH
// of the machine can be reached.
func LoadPacketFilter(ctx context.Context) error {
	m, err := machine.New(machine.Options{Units: units.None{Reason: "the machine is starting"}})
	if err != nil {
		return err
	}
	load := func(table []byte) error {
		_, err := m.Run(ctx, nftables.Load, host.Input{Staged: []host.File{{Place: nftables.Table, Content: table}}})
		return err
	}
	kept, err := m.Read(nftables.Table)
	if errors.Is(err, fs.ErrNotExist) {
		return load(firstTable)
	}
	if err == nil {
		err = load(kept)
	}
	if err != nil {
		return errors.Join(err, load(firstTable))
	}
	return nil
}
