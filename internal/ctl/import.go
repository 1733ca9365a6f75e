package ctl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/importer/programs"
)

// importCommand converts other programs' configurations to configuration documents. It does not access the gateway, so that it
// can be tried anywhere.
func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Make a configuration document of another program's configuration",
		Long: "Prints a configuration document, and line by line on standard error what it does not contain. Look at both, then use plan and apply.",
	}
	for _, from := range programs.All {
		interfaces := map[string]string{}
		one := importFrom(from, &interfaces)
		if from.Name == "opnsense" {
			one.Flags().StringToStringVar(&interfaces, "interface", nil, "what an interface is called here, for example igb0=enp1s0; may be repeated")
		}
		cmd.AddCommand(one)
	}
	return cmd
}

func importFrom(from programs.Program, interfaces *map[string]string) *cobra.Command {
	return &cobra.Command{
		Use: from.Name + " FILE", Short: from.Short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readImport(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			doc, report, err := from.Read(cmd.Context(), text, *interfaces)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			made, err := doc.YAML(filepath.Base(args[0]))
			if err != nil {
				return err
			}
			if err := report.Print(cmd.ErrOrStderr(), args[0]); err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(made)
			return err
		},
	}
}

// readImport reads a file, or standard input for a dash.
func readImport(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, importer.MaxSize+1))
	if err == nil && len(text) > importer.MaxSize {
		err = errors.New("the file is too large")
	}
	return text, err
}
