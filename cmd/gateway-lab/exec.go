package main

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/lab"
)

func execCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "exec {gateway|gateway1|gateway2|wan|lan} -- COMMAND...",
		Short: "Run a command inside the lab",
		Long: `Run a command inside the lab, with its standard streams and its exit code.

The three sides have network namespaces of their own and share everything else: on the wan
and the lan side too, files and processes are those of the gateway. In a lab with several
gateways these are gateway1, gateway2 and so on.`,
		Example: "  gateway-lab exec gateway -- chronyc -c sources\n  gateway-lab exec lan -- ip route",
		Args:    cobra.MinimumNArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if l, err := find(cmd); err == nil && len(args) == 0 {
				for _, node := range l.All() {
					names = append(names, node.Name())
				}
				names = append(names, string(lab.Wan), string(lab.Lan))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := find(cmd)
			if err != nil {
				return err
			}
			node, side := l.At(args[0])
			inside, err := node.Command(cmd.Context(), side, args[1:]...)
			if err != nil {
				return err
			}
			// This process becomes the command, with its terminal, signals and exit code.
			return fmt.Errorf("entering the lab: %w", syscall.Exec(inside.Path, inside.Args, inside.Environ()))
		},
	}
}
