// Command gateway-upgrade replaces the gateway by another version, and takes that back when it does not serve.
package main

import (
	"context"
	"flag"

	"edge.internal/gateway/internal/app"
)

func main() {
	app.Main(func(ctx context.Context) error {
		var cfg app.Config
		cfg.UpgradeFlags(flag.CommandLine)
		refresh := flag.Bool("refresh", false, "have apt fetch its lists, and nothing else")
		flag.Parse()
		if *refresh {
			return app.RefreshPackages(ctx)
		}
		return app.RunUpgrade(ctx, cfg)
	})
}
