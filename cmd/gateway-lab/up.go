package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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
			// Several gateways form a cluster, unless the user wants to try the wizard.
			if opts.Nodes > 1 && opts.AdminEmail == "" && !opts.Apart {
				opts.AdminEmail, opts.AdminPassword = "admin@lab.internal", rand.Text()
			}
			return up(cmd.Context(), cmd.OutOrStdout(), opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.UI, "ui", "127.0.0.1:3443", "address on this machine where the UI is served")
	flags.IntVar(&opts.Nodes, "nodes", 1, "how many gateways; several form a cluster, with a wan, a lan and a link between them. The UI of the second one is at the next address, and so on")
	flags.BoolVar(&opts.Apart, "apart", false, "leave it to the console to make a cluster of several gateways")
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
	ended := make(chan *lab.Lab, opts.Nodes)
	for _, node := range l.All() {
		go func() {
			<-node.Done()
			ended <- node
		}()
	}
	select {
	case node := <-ended:
		return errors.Join(fmt.Errorf("the lab ended on its own, see %s", node.Log("lab")), l.Down())
	case <-ctx.Done():
		fmt.Fprintln(out, "\nstopping")
		return l.Down()
	}
}

// describe prints what runs, what cannot, and what to do next.
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
		fmt.Fprintln(out, "wan and lan sides: not available, for the same reason")
		fmt.Fprintln(out, "API, UI and database run: the configuration is saved, checked and previewed, but no daemon uses it")
	}
	if len(unable) > 0 {
		fmt.Fprintln(out)
	}
	self := os.Args[0]
	dir := ""
	if l.Dir() != lab.DefaultDir {
		dir = " --dir " + l.Dir()
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	names := []string{}
	for _, node := range l.All() {
		complete, err := node.SetupComplete(ctx)
		if err != nil {
			return fmt.Errorf("asking for the setup: %w", err)
		}
		of := ""
		if node.Nodes > 1 {
			of = " of " + node.Name()
		}
		fmt.Fprintf(table, "UI%s\t%s\n", of, node.URL())
		if !complete {
			token, err := node.SetupToken()
			if err != nil {
				return fmt.Errorf("reading the setup token: %w", err)
			}
			fmt.Fprintf(table, "Setup token%s\t%s\n", of, token)
		}
		names = append(names, node.Name())
	}
	if email, password := l.Administrator(); email != "" {
		fmt.Fprintf(table, "Administrator\t%s, whose first password is %s\n", email, password)
	}
	if l.Isolated() {
		fmt.Fprintf(table, "Look inside\t%s exec %s%s -- bash    (or %s)\n", self, names[0], dir, strings.Join(append(names[1:], "wan", "lan"), ", "))
	}
	if l.Nodes > 1 {
		fmt.Fprintf(table, "Break it\t%[1]s cut %[2]s cluster%[3]s, %[1]s kill %[2]s postgresql%[3]s    (heal, pause, resume)\n", self, names[0], dir)
	}
	fmt.Fprintf(table, "State, logs\t%s status%s, %s logs%s\n", self, dir, self, dir)
	fmt.Fprintf(table, "Stop\tCtrl-C, or %s down%s\n", self, dir)
	return table.Flush()
}
