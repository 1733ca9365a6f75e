// Command gateway-upgrade replaces the gateway by another version, and rolls back if that does not serve.
package main

import (
	"context"
	"flag"

	"edge.internal/gateway/internal/app/root/upgrade"
	"edge.internal/gateway/internal/start"
)

func main() {
	start.Main(func(ctx context.Context) error {
		var cfg start.Config
		cfg.UpgradeFlags(flag.CommandLine)
		refresh := flag.Bool("refresh", false, "have apt fetch its lists, and nothing else")
		flag.Parse()
		if *refresh {
			return upgrade.RefreshPackages(ctx)
		}
		return upgrade.Run(ctx, cfg)
	})
}
