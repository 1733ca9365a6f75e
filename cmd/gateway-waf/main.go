// Command gateway-waf is the agent of the web application firewall, which HAProxy asks about requests.
package main

import (
	"context"
	"flag"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/start"
)

func main() {
	start.Main(func(ctx context.Context) error {
		var cfg app.WAFConfig
		cfg.Flags(flag.CommandLine)
		flag.Parse()
		return app.RunWAF(ctx, cfg)
	})
}
