// Command gateway-helper performs the operations of the gateway's other programs that need root, and nothing else.
package main

import (
	"context"
	"flag"

	"edge.internal/gateway/internal/app/root"
	"edge.internal/gateway/internal/start"
)

func main() {
	start.Main(func(ctx context.Context) error {
		var cfg start.Config
		cfg.HelperFlags(flag.CommandLine)
		filter := flag.Bool("load-packet-filter", false, "load the packet filter that was kept, and exit")
		probe := flag.Bool("probe", false, "be gateway-probe: do nothing but look at the network, without root")
		flag.BoolVar(&cfg.Probes, "with-probe", false, "do what gateway-probe does, too (in a lab)")
		flag.Parse()
		switch {
		case *filter:
			return root.LoadPacketFilter(ctx)
		case *probe:
			return root.RunProbes(ctx, cfg)
		}
		return root.RunHelper(ctx, cfg)
	})
}
