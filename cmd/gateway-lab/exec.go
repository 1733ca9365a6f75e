package main

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/lab"
)

func execCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "exec {gateway|wan|lan} -- COMMAND...",
		Short: "Run a command inside the lab",
		Long: `Run a command inside the lab, with its standard streams and its exit code.

The three sides have network namespaces of their own and share everything else: on the wan
and the lan side too, files and processes are those of the gateway.`,
		Example:   "  gateway-lab exec gateway -- chronyc -c sources\n  gateway-lab exec lan -- ip route",
		Args:      cobra.MinimumNArgs(2),
		ValidArgs: []string{string(lab.Gateway), string(lab.Wan), string(lab.Lan)},
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := find(cmd)
			if err != nil {
				return err
			}
			inside, err := l.Command(cmd.Context(), lab.Side(args[0]), args[1:]...)
			if err != nil {
				return err
			}
			// From here on this process is the command: terminal, signals and exit code are its own.
			return fmt.Errorf("entering the lab: %w", syscall.Exec(inside.Path, inside.Args, inside.Environ()))
		},
	}
}
