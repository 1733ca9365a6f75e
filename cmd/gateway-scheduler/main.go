// Command gateway-scheduler runs the periodic jobs.
package main

import (
	"context"
	"flag"

	"edge.internal/gateway/internal/app"
)

func main() {
	app.Main(func(ctx context.Context) error {
		var cfg app.Config
		cfg.Flags(flag.CommandLine)
		flag.Parse()
		return app.RunScheduler(ctx, cfg)
	})
}
