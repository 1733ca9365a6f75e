package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/lab"
)

// cableCommand unplugs the cable of a gateway, or plugs it in again.
func cableCommand(verb string, do func(*lab.Lab, lab.Side) error) *cobra.Command {
	short := "Pull a gateway's cable out of a switch"
	if verb == "heal" {
		short = "Put a gateway's cable into a switch again"
	}
	return &cobra.Command{
		Use:     verb + " {gateway1|gateway2} {wan|lan|cluster}",
		Short:   short,
		Example: "  gateway-lab " + verb + " gateway2 cluster",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := gateway(cmd, args[0])
			if err != nil {
				return err
			}
			return do(node, lab.Side(args[1]))
		},
	}
}

// signalCommand sends a signal to the processes of a unit.
func signalCommand(verb, signal string) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " GATEWAY UNIT",
		Short:   map[string]string{lab.Kill: "Kill a program with SIGKILL", lab.Pause: "Pause a program (SIGSTOP)", lab.Resume: "Let a paused program go on"}[signal],
		Example: "  gateway-lab " + verb + " gateway postgresql",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := gateway(cmd, args[0])
			if err != nil {
				return err
			}
			return node.Signal(cmd.Context(), host.Unit(args[1]), signal)
		},
	}
}

func gateway(cmd *cobra.Command, name string) (*lab.Lab, error) {
	l, err := find(cmd)
	if err != nil {
		return nil, err
	}
	node, side := l.At(name)
	if side != lab.Gateway {
		var names []string
		for _, node := range l.All() {
			names = append(names, node.Name())
		}
		return nil, fmt.Errorf("no gateway %q: there is %s", name, strings.Join(names, ", "))
	}
	return node, nil
}
