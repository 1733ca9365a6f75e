package app

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// programs are those that are made of all rooms, by their names. The package has them as one file with three names.
var programs = map[string]func(ctx context.Context) error{"gateway-api": apiProgram, "gateway-ctl": ctlProgram, "gateway-restore": restoreProgram}

// Program is the program that a file is by its name: what others call it, or what it was built as.
func Program(built string) func(ctx context.Context) error {
	if run := programs[filepath.Base(os.Args[0])]; run != nil {
		return run
	}
	return programs[built]
}

func apiProgram(ctx context.Context) error {
	var cfg Config
	cfg.Flags(flag.CommandLine)
	openapi := flag.Bool("openapi", false, "print the OpenAPI document and exit")
	version := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	switch {
	case *version:
		fmt.Println(Version)
		return nil
	case *openapi:
		return WriteSpec(os.Stdout)
	}
	return RunAPI(ctx, cfg)
}

func ctlProgram(ctx context.Context) error {
	if err := ReadSettings(); err != nil {
		return err
	}
	return Ctl().ExecuteContext(ctx)
}

func restoreProgram(ctx context.Context) error {
	var cfg Config
	cfg.RestoreFlags(flag.CommandLine)
	flag.Parse()
	return RunRestore(ctx, cfg)
}
