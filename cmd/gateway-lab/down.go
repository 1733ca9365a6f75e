package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/lab"
)

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the lab; its state stays in the folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := find(cmd)
			if errors.Is(err, lab.ErrNotRunning) {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing to stop")
				return nil
			}
			if err != nil {
				return err
			}
			return l.Down()
		},
	}
}
