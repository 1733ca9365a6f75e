package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/ids"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

func idsUnban(cfg *config) *cobra.Command {
	return &cobra.Command{
		Use: "ids-unban ADDRESS", Short: "End every ban of an address", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := value.Parse[value.Addr](args[0])
			if err != nil {
				return fmt.Errorf("%s %w", args[0], err)
			}
			if n, err := unbanByAPI(cmd.Context(), cfg, address.Netip()); err == nil {
				cmd.Printf("%s: %d bans ended\n", address, n)
				return nil
			}
			// A problem with gateway-api must not keep root from ending a ban.
			if err := unbanHere(cmd.Context(), cfg, address); err != nil {
				return err
			}
			cmd.Printf("%s: bans ended\n", address)
			return nil
		},
	}
}

// unbanByAPI ends the bans of an address through gateway-api, which audits each of them, and returns how many there were.
func unbanByAPI(ctx context.Context, cfg *config, address netip.Addr) (ended int, err error) {
	paths := cfg.paths()
	list, err := control.Get[ids.Decisions](ctx, paths, "/ids/decisions?limit=5000&search="+url.QueryEscape(address.String()))
	if err != nil {
		return 0, err
	}
	if list.Error != "" {
		return 0, errors.New(list.Error)
	}
	for _, d := range list.Decisions {
		if !d.Covers(address) {
			continue
		}
		if _, err := control.Ask[resource.Deleted](ctx, paths, http.MethodDelete, fmt.Sprintf("/ids/decisions/%d", d.ID), nil); err != nil {
			return ended, err
		}
		ended++
	}
	return ended, nil
}

// unbanHere ends the bans of an address by CrowdSec's own tool.
func unbanHere(ctx context.Context, cfg *config, address value.Addr) error {
	m, err := machine.New(machine.Options{Root: cfg.Root, Units: units.None{Reason: "gateway-ctl starts no daemons"}})
	if err != nil {
		return err
	}
	_, err = m.Run(ctx, crowdsec.Unban, host.Input{Args: []string{address.String()}})
	if _, refused := errors.AsType[*host.ExitError](err); refused {
		return fmt.Errorf("%w\nIf CrowdSec does not run, stop its bouncer, and packets are no longer dropped: systemctl stop %s", err, crowdsec.Bouncer)
	}
	return err
}
