package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/host/machine/packages"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/upgrade"
	"edge.internal/gateway/internal/upgrade/runner"
)

// upgradeCommand shows and starts upgrades. It also works while gateway-api is down, when it is needed most.
func upgradeCommand(cfg *config) *cobra.Command {
	var whole bool
	show := &cobra.Command{
		Use: "upgrade", Short: "Show the running or last upgrade, or begin one", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			last, err := runner.Job.Last(jobs.New(home.Home{Root: cfg.Root}, nil))
			if errors.Is(err, fs.ErrNotExist) {
				cmd.Println("The gateway has not been upgraded yet.")
				return nil
			}
			if err != nil {
				return err
			}
			printUpgrade(cmd.OutOrStdout(), last, whole)
			return nil
		},
	}
	show.Flags().BoolVar(&whole, "output", false, "also show the output of each step's programs")
	show.AddCommand(&cobra.Command{
		Use: "begin [VERSION]", Short: "Upgrade the gateway to the version that apt offers, or to another newer version", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			version := ""
			if len(args) == 1 {
				version = args[0]
			}
			version, err := beginUpgrade(cmd.Context(), cfg, version)
			if err != nil {
				return err
			}
			cmd.Printf("The upgrade to version %s has started. Run gateway-ctl upgrade to see its progress.\n", version)
			return nil
		},
	})
	return show
}

// beginUpgrade asks gateway-api to begin an upgrade, or begins it itself if that is down.
func beginUpgrade(ctx context.Context, cfg *config, version string) (string, error) {
	body, err := json.Marshal(upgrade.Wish{Version: version})
	if err != nil {
		return "", errors.New("this is not a version")
	}
	begun, err := control.Ask[upgrade.Upgrade](ctx, cfg.paths(), http.MethodPost, "/system/upgrade", body)
	if !control.IsDown(err) {
		return begun.To, err
	}
	runs, err := units.Parse(cfg.Units)
	if err != nil {
		return "", err
	}
	starts, _ := runs.(jobs.Starter)
	h := home.Home{Root: cfg.Root}
	versions, err := packages.New(h, starts).PackageVersions(ctx)
	if err != nil {
		return "", err
	}
	own := versions.Packages[slices.IndexFunc(versions.Packages, func(p host.PackageVersion) bool { return p.Name == host.GatewayPackage })]
	if version == "" {
		version = own.Available
	}
	if !slices.Contains(own.Newer, version) {
		return "", fmt.Errorf("apt knows no such version that is newer than the installed one (%s): run apt-get update first", own.Installed)
	}
	return version, runner.Job.Begin(ctx, jobs.New(h, starts), runner.Wish{Version: version}, "")
}

func printUpgrade(w io.Writer, u runner.Upgrade, whole bool) {
	printJob(w, [][2]string{{"state", strings.ReplaceAll(string(u.State), "_", " ")}, {"from", u.From}, {"to", u.To}}, u.Record, whole)
}

func printJob(w io.Writer, lines [][2]string, r job.Record, whole bool) {
	lines = append(lines, [2]string{"began", r.BeganAt.Local().Format(time.DateTime)})
	if !r.EndedAt.IsZero() {
		lines = append(lines, [2]string{"ended", r.EndedAt.Local().Format(time.DateTime)})
	}
	if r.Reason != "" {
		lines = append(lines, [2]string{"reason", r.Reason})
	}
	for _, line := range lines {
		fmt.Fprintf(w, "%-7s %s\n", line[0]+":", line[1])
	}
	for _, s := range r.Steps {
		fmt.Fprintf(w, "  %-10s %s\n", s.Name, s.State)
		if s.Error != "" {
			fmt.Fprintf(w, "             %s\n", s.Error)
		}
		if whole && s.Output != "" {
			for text := range strings.Lines(s.Output) {
				fmt.Fprintf(w, "             | %s\n", strings.TrimRight(text, "\n"))
			}
		}
	}
}
