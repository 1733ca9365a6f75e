// Command gateway-restore replaces the gateway's data by those of a backup, and takes that back when the gateway does not serve.
package main

import (
	"context"
	"flag"

	"edge.internal/gateway/internal/app"
)

func main() {
	app.Main(func(ctx context.Context) error {
		var cfg app.Config
		cfg.RestoreFlags(flag.CommandLine)
		flag.Parse()
		return app.RunRestore(ctx, cfg)
	})
}
