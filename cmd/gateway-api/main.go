// Command gateway-api is five programs, selected by the name it is called by: gateway-api serves the API and the UI, and applies
// the stored configuration to the machine; gateway-scheduler runs the periodic jobs; gateway-restore replaces the gateway's data
// by those of a backup, and rolls back if the gateway then does not serve; gateway-repair makes a standby equal to its primary
// again; gateway-ctl is the command line on the machine itself. All of them contain all rooms, so that separate binaries would
// together be nearly five times as large.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/start"
)

var programs = map[string]func(context.Context) error{
	"gateway-api": api, "gateway-scheduler": scheduler, "gateway-restore": restore, "gateway-repair": repair, "gateway-ctl": ctl,
}

func main() {
	start.Main(func(ctx context.Context) error {
		name := filepath.Base(os.Args[0])
		run, known := programs[name]
		if !known {
			return fmt.Errorf("there is no program %s", name)
		}
		return run(ctx)
	})
}

func api(ctx context.Context) error {
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
}

func scheduler(ctx context.Context) error {
	var cfg app.Config
	cfg.Flags(flag.CommandLine)
	flag.Parse()
	return app.RunScheduler(ctx, cfg)
}

func restore(ctx context.Context) error {
	var cfg app.Config
	cfg.RestoreFlags(flag.CommandLine)
	flag.Parse()
	return app.RunRestore(ctx, cfg)
}

func repair(ctx context.Context) error {
	var cfg app.Config
	cfg.RepairFlags(flag.CommandLine)
	flag.Parse()
	return app.RunRepair(ctx, cfg)
}

func ctl(ctx context.Context) error {
	if err := start.ReadSettings(start.SettingsFile); err != nil {
		return err
	}
	return app.Ctl().ExecuteContext(ctx)
}
