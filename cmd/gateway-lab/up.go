package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/lab"
)

func upCommand() *cobra.Command {
	var opts lab.Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab and keep it until Ctrl-C or down",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if opts.Dir, err = cmd.Flags().GetString("dir"); err != nil {
				return err
			}
			return up(cmd.Context(), cmd.OutOrStdout(), opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.UI, "ui", "127.0.0.1:3443", "address on this machine where the UI is served")
	flags.StringVar(&opts.AdminEmail, "admin-email", "", "complete the setup with this administrator")
	flags.StringVar(&opts.AdminPassword, "admin-password", "", "the administrator's password, at least 12 characters")
	flags.StringVar(&opts.HAProxy, "haproxy", "", "HAProxy to run instead of this machine's")
	cmd.MarkFlagsRequiredTogether("admin-email", "admin-password")
	return cmd
}

func up(ctx context.Context, out io.Writer, opts lab.Options) error {
	opts.Progress = func(step string) { fmt.Fprintln(out, "  ·", step) }
	l, err := lab.Up(ctx, opts)
	if err != nil {
		return err
	}
	if err := describe(ctx, out, l); err != nil {
		return errors.Join(err, l.Down())
	}
	select {
	case <-l.Done():
		return errors.Join(fmt.Errorf("the lab ended by itself, see %s", l.Log("lab")), l.Down())
	case <-ctx.Done():
		fmt.Fprintln(out, "\nstopping")
		return l.Down()
	}
}

// describe says what runs, what cannot, and where to go from here.
func describe(ctx context.Context, out io.Writer, l *lab.Lab) error {
	fmt.Fprintln(out)
	unable, err := l.Unable(ctx)
	if err != nil {
		return err
	}
	for _, s := range unable {
		if s.Detail == "" {
			s.Detail = "not installed"
		}
		fmt.Fprintf(out, "%s: %s\n", s.Unit, s.Detail)
	}
	if !l.Isolated() {
		fmt.Fprintln(out, "wan and lan sides: for the same reason there are none")
		fmt.Fprintln(out, "API, UI and database run: configuration is stored, checked and previewed, and no daemon has it")
	}
	if len(unable) > 0 {
		fmt.Fprintln(out)
	}
	complete, err := l.SetupComplete(ctx)
	if err != nil {
		return fmt.Errorf("asking for the setup: %w", err)
	}
	self := os.Args[0]
	dir := ""
	if l.Dir() != lab.DefaultDir {
		dir = " --dir " + l.Dir()
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "UI\t%s\n", l.URL())
	if !complete {
		token, err := l.SetupToken()
		if err != nil {
			return fmt.Errorf("reading the setup token: %w", err)
		}
		fmt.Fprintf(table, "Setup token\t%s\n", token)
	}
	if l.Isolated() {
		fmt.Fprintf(table, "Look inside\t%s exec gateway%s -- bash    (or wan, lan)\n", self, dir)
	}
	fmt.Fprintf(table, "State, logs\t%s status%s, %s logs%s\n", self, dir, self, dir)
	fmt.Fprintf(table, "Stop\tCtrl-C, or %s down%s\n", self, dir)
	return table.Flush()
}
