package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/lab"
)

func statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what each gateway of the lab runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := find(cmd)
			if err != nil {
				return err
			}
			for i, node := range l.All() {
				status, err := node.Status(cmd.Context())
				if err != nil {
					return err
				}
				switch {
				case asJSON:
					encoder := json.NewEncoder(cmd.OutOrStdout())
					encoder.SetIndent("", "  ")
					err = encoder.Encode(status)
				case i > 0:
					fmt.Fprintln(cmd.OutOrStdout())
					fallthrough
				default:
					err = printStatus(cmd.OutOrStdout(), status)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func printStatus(out io.Writer, s lab.Status) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "Folder\t%s\nUI\t%s\nSince\t%s\n", s.Dir, s.URL, s.Started.Format(time.DateTime))
	if s.Reason != "" {
		fmt.Fprintf(table, "Limits\t%s\n", s.Reason)
	}
	fmt.Fprintf(table, "\nUNIT\tSTATE\tPID\tSINCE\tDETAIL\n")
	for _, u := range s.Units {
		if !u.Installed {
			fmt.Fprintf(table, "%s\tnot installed\t\t\t\n", u.Unit)
			continue
		}
		pid := ""
		if u.PID != 0 {
			pid = fmt.Sprint(u.PID)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", u.Unit, u.Active, pid, u.Since.Local().Format(time.TimeOnly), u.Detail)
	}
	if len(s.Network) > 0 {
		fmt.Fprintf(table, "\nSIDE\tLINK\tADDRESS\n")
	}
	for _, a := range s.Network {
		fmt.Fprintf(table, "%s\t%s\t%s\n", a.Side, a.Link, a.Address)
	}
	return table.Flush()
}
