package ctl

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/license"
	"edge.internal/gateway/internal/license/document"
)

func licenseCommand(cfg *config) *cobra.Command {
	ask := func(cmd *cobra.Command, method, path string, body any) error {
		r, err := callAPI[license.Record](cmd, cfg, method, path, body)
		if err == nil {
			printLicense(cmd.OutOrStdout(), &r)
		}
		return err
	}
	show := &cobra.Command{
		Use: "license", Short: "Show the license, or set or clear it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return ask(cmd, http.MethodGet, "/license", nil) },
	}
	show.AddCommand(
		&cobra.Command{
			Use: "set FILE|-", Short: "Install a license from a file or from standard input", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				text, err := document.Read(args[0], cmd.InOrStdin())
				if err != nil {
					return err
				}
				if !utf8.ValidString(text) {
					return errors.New("this is not a license: it is not a text")
				}
				return ask(cmd, http.MethodPut, "/license/key", map[string]string{"key": text})
			},
		},
		&cobra.Command{
			Use: "clear", Short: "Remove the license", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return ask(cmd, http.MethodDelete, "/license/key", nil) },
		},
	)
	return show
}

func printLicense(w io.Writer, r *license.Record) {
	line := func(name, value string) { fmt.Fprintf(w, "%-14s %s\n", name+":", value) }
	line("status", string(r.Status))
	fmt.Fprintln(w, r.Reason)
	if r.NotAfter != nil {
		line("id", r.ID)
		line("subject", r.Subject)
		line("plan", r.Plan)
		line("valid", fmt.Sprintf("%s to %s", r.NotBefore.Format("2006-01-02"), r.NotAfter.Format("2006-01-02")))
		line("days left", fmt.Sprint(*r.DaysLeft))
		features := strings.Join(r.Features, ", ")
		if features == "" {
			features = "all"
		}
		line("features", features)
	}
	line("nodes", usage(r.Limits.Nodes))
	line("domains", usage(r.Limits.Domains))
	line("tunnel peers", usage(r.Limits.TunnelPeers))
}

// usage says how much is used and how much the license allows, as far as known.
func usage(l license.Limit) string {
	used := "unknown"
	if l.Used != nil {
		used = fmt.Sprint(*l.Used)
	}
	switch {
	case l.Limit == nil:
		return used + ", no limit"
	case l.Over:
		return fmt.Sprintf("%s of %d: more than the license is for", used, *l.Limit)
	}
	return fmt.Sprintf("%s of %d", used, *l.Limit)
}
