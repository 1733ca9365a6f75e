// Command notices documents the third-party work in the package: it writes debian/copyright and a software bill of materials,
// both from the versions that the programs and the console were built with.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var from sources
	var epoch int64
	flag.StringVar(&from.Programs, "programs", "", "folder of the programs")
	flag.StringVar(&from.UI, "ui", "", "folder of the console's package-lock.json and node_modules")
	flag.StringVar(&from.Modules, "modules", "", "Go's module cache")
	flag.StringVar(&from.Go, "go", "", "where Go is installed")
	version := flag.String("version", "", "version of the package")
	flag.Int64Var(&epoch, "date", 0, "date of the package, in seconds since 1970")
	copyright := flag.String("copyright", "", "file to write: copyright")
	sbom := flag.String("sbom", "", "file to write: bill of materials")
	flag.Parse()
	if err := run(from, *version, time.Unix(epoch, 0).UTC(), *copyright, *sbom); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(from sources, version string, date time.Time, copyright, sbom string) error {
	parts, err := from.parts()
	if err != nil {
		return err
	}
	bill, err := materials(parts, version, date)
	if err != nil {
		return err
	}
	if err := os.WriteFile(copyright, notices(parts), 0o644); err != nil {
		return err
	}
	return os.WriteFile(sbom, bill, 0o644)
}
