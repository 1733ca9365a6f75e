// Command gateway-helper does for the gateway's other programs what needs root, and nothing else.
package main

import (
	"context"
	"flag"

	"edge.internal/gateway/internal/app"
)

func main() {
	app.Main(func(ctx context.Context) error {
		var cfg app.Config
		cfg.HelperFlags(flag.CommandLine)
		filter := flag.Bool("load-packet-filter", false, "load the packet filter that was kept, and exit")
		flag.Parse()
		if *filter {
			return app.LoadPacketFilter(ctx)
		}
		return app.RunHelper(ctx, cfg)
	})
}
