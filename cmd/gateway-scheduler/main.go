// Command gateway-scheduler runs the periodic jobs.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"edge.internal/gateway/internal/app"
)

func main() {
	app.Main(func() error {
		var cfg app.Config
		cfg.Flags(flag.CommandLine)
		flag.Parse()
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return app.RunScheduler(ctx, cfg)
	})
}
