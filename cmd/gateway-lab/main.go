// Command gateway-lab runs one or more whole gateways in network namespaces, to try them out, develop and test.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/lab"
)

func main() {
	lab.Init()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C exits immediately, and the kernel ends the lab
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gateway-lab:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "gateway-lab",
		Short:         "Run one or more whole gateways in network namespaces",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().String("dir", lab.DefaultDir, "state folder; labs with different folders run side by side")
	cmd.AddCommand(upCommand(), execCommand(), statusCommand(), logsCommand(), downCommand(), cableCommand("cut", (*lab.Lab).Cut), cableCommand("heal", (*lab.Lab).Heal),
		signalCommand("kill", lab.Kill), signalCommand("pause", lab.Pause), signalCommand("resume", lab.Resume))
	return cmd
}

// find returns the running lab that the --dir flag names.
func find(cmd *cobra.Command) (*lab.Lab, error) {
	dir, err := cmd.Flags().GetString("dir")
	if err != nil {
		return nil, err
	}
	return lab.Find(dir)
}
