package ctl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/start"
)

// changed is the exit code of a plan or an apply with changes.
const changed start.ExitCode = 2

// documentWithin limits the time of a document or a revert: thousands of rows are stored one by one.
const documentWithin = 15 * time.Minute

// exchange makes a request and returns the answer with its headers. about is the prefix of errors.
func exchange(cmd *cobra.Command, cfg *config, about, method, path string, body io.Reader, header http.Header) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(cmd.Context(), method, "http://gateway"+httpd.Prefix+path, body)
	if err != nil {
		return nil, nil, err
	}
	req.Header = header
	res, err := httpd.SocketClient(control.Socket(cfg.paths()), documentWithin).Do(req)
	if control.IsDown(err) {
		return nil, nil, errDown
	}
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = refusal(about, content)
	}
	return res.Header, content, err
}

// confirmWithinFlag adds a flag for the time in which a command's changes must be confirmed.
func confirmWithinFlag(cmd *cobra.Command, within *int) {
	cmd.Flags().IntVar(within, "confirm-within", 0, "take the changes back unless they are confirmed within so many seconds (10 to 600)")
}

// printConfirmBy prints when the changes are reverted, if they must be confirmed.
func printConfirmBy(cmd *cobra.Command, answered http.Header) {
	if by := answered.Get(httpd.ConfirmByHeader); by != "" {
		cmd.Printf("It goes back at %s unless it is confirmed: gateway-ctl confirm %s\n", by, answered.Get(httpd.ChangeSetHeader))
	}
}

// refusal returns the reason of a refused request: each complaint about a document is on its own line, with its location in the
// file.
func refusal(file string, content []byte) error {
	var answer struct {
		Error *struct {
			Message string
			Fields  map[string]string
			Details struct{ Complaints []resource.DocumentComplaint }
		} `json:"error"`
	}
	if err := json.Unmarshal(content, &answer, json.MatchCaseInsensitiveNames(true)); err != nil || answer.Error == nil {
		return errors.New("the answer of gateway-api cannot be read")
	}
	text := answer.Error.Message
	for _, c := range answer.Error.Details.Complaints {
		text += "\n" + file
		if c.Line > 0 {
			text += ":" + strconv.Itoa(c.Line)
		}
		text += ": " + c.Kind
		for _, part := range []string{c.Name, c.Field} {
			if part != "" {
				text += ": " + part
			}
		}
		text += ": " + c.Message
	}
	if len(answer.Error.Details.Complaints) == 0 {
		for _, field := range slices.Sorted(maps.Keys(answer.Error.Fields)) {
			text += " " + field + ": " + answer.Error.Fields[field]
		}
	}
	return errors.New(text)
}

func exportCommand(cfg *config) *cobra.Command {
	var kinds []string
	var secrets string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "export", Short: "Print the configuration as a document", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			header := http.Header{}
			if asJSON {
				header.Set("Accept", "application/json")
			}
			query := url.Values{"secrets": {secrets}, "kinds": {strings.Join(kinds, ",")}}
			_, content, err := exchange(cmd, cfg, "export", http.MethodGet, "/configuration?"+query.Encode(), nil, header)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&kinds, "kind", nil, "export only these kinds")
	f.StringVar(&secrets, "secrets", "sealed", "sealed: encrypted, for gateways with the same master key; omit: left out")
	f.BoolVar(&asJSON, "json", false, "JSON instead of YAML")
	return cmd
}

func documentCommand(cfg *config, use, short string) *cobra.Command {
	var file, colour, reason string
	var prune, files bool
	var within int
	cmd := &cobra.Command{
		Use: use + " -f FILE", Short: short, Args: cobra.NoArgs,
		Long: short + ".\n\nThe exit code is 0 if there is nothing to do, 2 if there are changes, and 1 after an error.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := readDocumentFile(cmd, file)
			if err != nil {
				return err
			}
			header := http.Header{"Content-Type": {"application/yaml"}}
			if reason != "" {
				header.Set(httpd.ReasonHeader, url.PathEscape(reason))
			}
			if within > 0 {
				header.Set(httpd.ConfirmWithinHeader, strconv.Itoa(within))
			}
			answered, content, err := exchange(cmd, cfg, file, http.MethodPost, "/configuration/"+use+"?prune="+strconv.FormatBool(prune), bytes.NewReader(doc), header)
			if err != nil {
				return err
			}
			var answer struct {
				Data resource.Planned `json:"data"`
			}
			if err := json.Unmarshal(content, &answer); err != nil {
				return fmt.Errorf("reading the answer of gateway-api: %w", err)
			}
			paint, err := painter(cmd.OutOrStdout(), colour)
			if err != nil {
				return err
			}
			printPlan(cmd, answer.Data, paint, files)
			if len(answer.Data.Changes) == 0 {
				return nil
			}
			printConfirmBy(cmd, answered)
			return changed
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "-", "the document; - for the standard input")
	f.BoolVar(&prune, "prune", false, "delete rows of the kinds in the document that the document does not have")
	f.StringVar(&colour, "color", "auto", "colours: auto, always or never")
	if use == "apply" {
		confirmWithinFlag(cmd, &within)
		f.StringVar(&reason, "reason", "", "why, for the history")
	} else {
		f.BoolVar(&files, "files", false, "also show what happens to the daemons' files")
	}
	return cmd
}

func readDocumentFile(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(file)
}

// The colours of a terminal.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// painter returns a function that colours texts, on a terminal or on request.
func painter(out io.Writer, when string) (func(colour, text string) string, error) {
	on := when == "always"
	switch when {
	case "always", "never":
	case "auto":
		if f, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" {
			about, err := f.Stat()
			on = err == nil && about.Mode()&os.ModeCharDevice != 0
		}
	default:
		return nil, errors.New("--color must be auto, always or never")
	}
	return func(colour, text string) string {
		if !on {
			return text
		}
		return colour + text + plain
	}, nil
}

func printPlan(cmd *cobra.Command, p resource.Planned, paint func(colour, text string) string, files bool) {
	signs := map[string][2]string{"create": {"+", green}, "update": {"~", yellow}, "delete": {"-", red}}
	count := map[string]int{}
	for _, c := range p.Changes {
		count[c.Verb]++
		sign := signs[c.Verb]
		cmd.Println(paint(sign[1], sign[0]+" "+c.Kind+" "+c.Name))
		for _, name := range slices.Sorted(maps.Keys(c.Fields)) {
			pair := c.Fields[name]
			if pair[0] != nil && string(pair[0]) != "null" || c.Verb == "update" {
				cmd.Println(paint(red, fmt.Sprintf("    - %s: %s", name, pair[0])))
			}
			if c.Verb != "delete" {
				cmd.Println(paint(green, fmt.Sprintf("    + %s: %s", name, pair[1])))
			}
		}
		for _, name := range c.Secrets {
			cmd.Println(paint(yellow, "    ~ "+name+": set, not shown"))
		}
		for _, u := range c.With {
			cmd.Println(paint(red, fmt.Sprintf("    - takes along %s %s", u.Kind, u.Name)))
		}
	}
	if files {
		for _, f := range p.Files {
			cmd.Print(f.Diff)
		}
	}
	if len(p.Changes) == 0 {
		cmd.Println("Nothing to do.")
		return
	}
	cmd.Printf("%d to create, %d to change, %d to delete, %d unchanged.\n", count["create"], count["update"], count["delete"], p.Unchanged)
}
