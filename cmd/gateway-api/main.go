// Command gateway-api serves the API and the UI, and brings the machine to what is stored.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"edge.internal/gateway/internal/app"
)

func main() {
	app.Main(func(ctx context.Context) error {
		var cfg app.Config
		cfg.Flags(flag.CommandLine)
		openapi := flag.Bool("openapi", false, "print the OpenAPI document and exit")
		version := flag.Bool("version", false, "print the version and exit")
		flag.Parse()
		switch {
		case *version:
			fmt.Println(app.Version)
			return nil
		case *openapi:
			return app.WriteSpec(os.Stdout)
		}
		return app.RunAPI(ctx, cfg)
	})
}
