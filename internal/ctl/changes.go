package ctl

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

func changesCommand(cfg *config) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "changes [change set]", Short: "List the newest change sets, or show one", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				set, err := callAPI[resource.StoredWhole](cmd, cfg, http.MethodGet, "/change-sets/"+url.PathEscape(args[0]), nil)
				if err == nil {
					printSet(cmd, set)
				}
				return err
			}
			waiting, err := callAPI[[]resource.WaitingSet](cmd, cfg, http.MethodGet, "/change-sets/waiting", nil)
			if err != nil {
				return err
			}
			for _, w := range waiting {
				cmd.Printf("Waiting: %s by %s goes back at %s unless it is confirmed: gateway-ctl confirm %s\n", w.ID, w.Actor, w.ConfirmBy.Local().Format(time.DateTime), w.ID)
			}
			list, err := callAPI[[]resource.Stored](cmd, cfg, http.MethodGet, fmt.Sprintf("/change-sets?limit=%d", limit), nil)
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, s := range list {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", s.ID, s.CreatedAt.Local().Format(time.DateTime), s.Actor, s.Reason, summary(s.Kinds))
			}
			return table.Flush()
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many")
	return cmd
}

// summary describes briefly what a set did.
func summary(kinds []resource.KindSum) string {
	var parts []string
	for _, k := range kinds {
		for _, x := range []struct {
			n    int
			verb string
		}{{k.Created, "+"}, {k.Updated, "~"}, {k.Deleted, "-"}} {
			if x.n > 0 {
				parts = append(parts, fmt.Sprintf("%s%d %s", x.verb, x.n, k.Kind))
			}
		}
	}
	return strings.Join(parts, ", ")
}

func printSet(cmd *cobra.Command, s resource.StoredWhole) {
	cmd.Printf("%s  %s  %s  %s\n", s.ID, s.CreatedAt.Local().Format(time.DateTime), s.Actor, s.Reason)
	printRows(cmd, s.Rows)
	for _, a := range s.Report {
		cmd.Printf("%s: %s, %s, %d ms %s\n", a.Component, a.State, a.Way, a.DurationMS, a.Error)
		for _, f := range a.Files {
			cmd.Print(f.Diff)
		}
	}
}

func printRows(cmd *cobra.Command, rows []resource.RowChange) {
	for _, r := range rows {
		cmd.Printf("%s %s %s (%s)\n", r.Verb, r.Kind, r.Name, r.ID)
		for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
			cmd.Printf("    %s: %s -> %s\n", name, r.Fields[name][0], r.Fields[name][1])
		}
		for _, name := range r.Secrets {
			cmd.Printf("    %s: changed, not shown\n", name)
		}
	}
}

func confirmCommand(cfg *config) *cobra.Command {
	return &cobra.Command{
		Use: "confirm [change set]", Short: "Keep a change that is waiting to be confirmed", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneWaiting(cmd, cfg, args)
			if err != nil {
				return err
			}
			if err := keep(cmd, cfg, id); err != nil {
				return err
			}
			cmd.Println("It is confirmed, and stays.")
			return nil
		},
	}
}

// keep confirms a change. While the change is still being applied, it retries.
func keep(cmd *cobra.Command, cfg *config, id string) error {
	for {
		_, err := callAPI[resource.Stored](cmd, cfg, http.MethodPost, "/change-sets/"+url.PathEscape(id)+"/confirm", nil)
		f, refused := errors.AsType[*fault.Error](err)
		if !refused || f.RetryAfter == 0 {
			return err
		}
		select {
		case <-cmd.Context().Done():
			return err
		case <-time.After(f.RetryAfter):
		}
	}
}

// oneWaiting returns the named set, or the only one that waits.
func oneWaiting(cmd *cobra.Command, cfg *config, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	list, err := callAPI[[]resource.WaitingSet](cmd, cfg, http.MethodGet, "/change-sets/waiting", nil)
	switch {
	case err != nil:
		return "", err
	case len(list) == 0:
		return "", errors.New("no change is waiting to be confirmed")
	case len(list) > 1:
		return "", errors.New("several changes are waiting to be confirmed: name one of those that gateway-ctl changes lists")
	}
	return list[0].ID.String(), nil
}

func revertCommand(cfg *config) *cobra.Command {
	var to, take, reason, id string
	var preview, partial bool
	var kinds []string
	var within int
	cmd := &cobra.Command{
		Use: "revert [change set]", Short: "Revert a change set, or bring the configuration back to a time (--to)", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (to != "") {
				return errors.New("name a change set, or a time with --to")
			}
			body := map[string]any{"preview": preview, "partial": partial, "take": take, "reason": reason}
			path := "/configuration/revert"
			if to != "" {
				at, err := time.Parse(time.RFC3339, to)
				if err != nil {
					return errors.New("--to must be a time, for example 2026-01-31T12:00:00Z")
				}
				body["at"], body["kinds"] = at, kinds
				if id != "" {
					body["id"] = id
				}
			} else {
				path = "/change-sets/" + url.PathEscape(args[0]) + "/revert"
			}
			header := http.Header{}
			if within > 0 && !preview {
				header.Set(httpd.ConfirmWithinHeader, strconv.Itoa(within))
			}
			b, err := json.Marshal(body)
			if err != nil {
				return err
			}
			answered, content, err := exchange(cmd, cfg, "revert", http.MethodPost, path, bytes.NewReader(b), header)
			if err != nil {
				return err
			}
			out, _, err := httpd.Open[resource.Reverted](content)
			if err != nil {
				return err
			}
			for _, c := range out.Changes {
				cmd.Println(c.Verb, c.Kind, c.Name)
			}
			for _, c := range out.Conflicts {
				cmd.Printf("edited later: %s %s %s by %s: then %s, now %s\n", c.Kind, c.Name, c.Field, c.Actor, c.Then, c.Now)
			}
			for _, u := range out.Unrestored {
				cmd.Printf("not restored: %s %s: %s\n", u.Kind, u.Name, u.Reason)
			}
			for _, s := range out.Stays {
				cmd.Printf("made by the gateway, does not come back: %s %s: %s\n", s.Kind, s.Name, strings.Join(s.Fields, ", "))
			}
			printConfirmBy(cmd, answered)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "time to go back to")
	f.StringSliceVar(&kinds, "kind", nil, "with --to: revert only these kinds")
	f.StringVar(&id, "id", "", "with --to and one --kind: revert only the row with this id")
	f.StringVar(&take, "take", "", "for fields that were edited later: then reverts them, now leaves them")
	f.StringVar(&reason, "reason", "", "why, for the history")
	f.BoolVar(&preview, "preview", false, "save nothing, and show what would change")
	f.BoolVar(&partial, "partial", false, "revert the rest if some rows cannot be restored")
	confirmWithinFlag(cmd, &within)
	return cmd
}
