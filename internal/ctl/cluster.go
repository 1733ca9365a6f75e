package ctl

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/setup"
)

func clusterJoin(cfg *config) *cobra.Command {
	var primary, token, pin, email, directory string
	var ipv6 bool
	cmd := &cobra.Command{
		Use: "cluster-join", Short: "Make this machine, which is not set up yet, a node of a cluster", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if token == "-" {
				line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
				if line == "" {
					return fmt.Errorf("reading the join token: %w", err)
				}
				token = strings.TrimSpace(line)
			}
			now, err := callAPI[setup.Status](cmd, cfg, http.MethodGet, "/setup/status", nil)
			if err != nil {
				return err
			}
			if !now.IsClusterNode {
				cmd.PrintErrln("Joining. This takes as long as it takes to copy what the cluster has.")
				if now, err = callAPI[setup.Status](cmd, cfg, http.MethodPost, "/setup/join-cluster", map[string]any{
					"primary_fqdn": primary, "join_token": token, "ca_fingerprint": pin,
				}); err != nil {
					return err
				}
			}
			if !now.Completed {
				if now, err = callAPI[setup.Status](cmd, cfg, http.MethodPost, "/setup/complete-node", map[string]any{
					"fqdn": now.FQDN, "acme_enabled": email != "", "acme_email": email, "acme_directory_url": directory, "ipv6_enabled": ipv6,
				}); err != nil {
					return err
				}
			}
			cmd.Printf("%s is a node of the cluster.\n", now.FQDN)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&primary, "primary", "", "full name of the primary")
	f.StringVar(&token, "token", "", "join token from the primary; - reads it from standard input")
	f.StringVar(&pin, "fingerprint", "", "SHA-256 of the cluster's certificate authority, to compare it with that of the token")
	f.StringVar(&email, "acme-email", "", "contact address for the certificate authority; without it, this node orders no certificates")
	f.StringVar(&directory, "acme-directory", "", "directory of the certificate authority; empty for the default one")
	f.BoolVar(&ipv6, "ipv6", true, "listen on IPv6, too; should be the same on all nodes")
	_ = cmd.MarkFlagRequired("primary") // the flags exist
	_ = cmd.MarkFlagRequired("token")
	return cmd
}

func clusterInit(cfg *config) *cobra.Command {
	return &cobra.Command{
		Use: "cluster-init-replication", Short: "Make this gateway the primary of a cluster, or what is missing for that", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := callAPI[cluster.ClusterStatus](cmd, cfg, http.MethodPost, "/cluster/initialise", nil)
			if err != nil {
				return err
			}
			cmd.Printf("%s is the primary. Make a join token for each other node.\n", s.LocalNode.FQDN)
			return nil
		},
	}
}

// reattachWithin is how long the API may not answer after it was asked for a repair: the repair continues without it, and may
// restart it.
const reattachWithin = 2 * time.Minute

func clusterStandby(cfg *config) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "cluster-setup-standby", Short: "Make this standby the same as the primary again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := callAPI[cluster.Repairing](cmd, cfg, http.MethodPost, "/cluster/repair-replication", cluster.Repair{Force: force})
			for answered := time.Now(); err == nil && s.State == "running"; {
				select {
				case <-cmd.Context().Done():
					return cmd.Context().Err()
				case <-time.After(200 * time.Millisecond):
				}
				now, failed := callAPI[cluster.Repairing](cmd, cfg, http.MethodGet, "/cluster/repair-replication", nil)
				switch {
				case failed == nil:
					s, answered = now, time.Now()
				case time.Since(answered) > reattachWithin:
					err = fmt.Errorf("the repair continues, but its result is not known here: %w", failed)
				}
			}
			switch {
			case err != nil:
				return err
			case s.State == "delegated":
				cmd.Printf("This is the primary. These nodes do it: %s\n", strings.Join(s.Nodes, ", "))
			case s.State != "succeeded":
				return errors.New(s.Error)
			default:
				cmd.Printf("This node is the same as the primary. Tables that differed: %d\n", len(s.Tables))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "continue even if more than half of the rows would be removed")
	return cmd
}

func promote(cfg *config) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "promote", Short: "Make this standby the primary", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := callAPI[cluster.ClusterStatus](cmd, cfg, http.MethodPost, "/cluster/promote", cluster.Promoting{Force: force})
			if err != nil {
				return err
			}
			cmd.Printf("%s is the primary, of the epoch %d.\n", s.LocalNode.FQDN, s.LocalNode.Epoch)
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "promote even if the primary does not answer: what it has not sent is lost unless it comes back")
	return cmd
}

func rollingUpdate(cfg *config) *cobra.Command {
	show := &cobra.Command{
		Use: "rolling-update", Short: "Show the update of all nodes, or begin one on the primary", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := callAPI[cluster.RollingUpdate](cmd, cfg, http.MethodGet, "/cluster/rolling-update", nil)
			switch {
			case err != nil:
				return err
			case u.Phase == cluster.Idle:
				cmd.Println("No update of the nodes is running.")
				return nil
			}
			for _, line := range [][2]string{{"phase", string(u.Phase)}, {"node", u.Node}, {"from", u.From}, {"to", u.To}, {"updated", strings.Join(u.Updated, ", ")}, {"error", u.Error}} {
				if line[1] != "" {
					cmd.Printf("%-8s %s\n", line[0]+":", line[1])
				}
			}
			return nil
		},
	}
	show.AddCommand(&cobra.Command{
		Use: "begin", Short: "Update all nodes to the version that apt offers, the standbys first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := callAPI[cluster.RollingUpdate](cmd, cfg, http.MethodPost, "/cluster/rolling-update", nil)
			if err != nil {
				return err
			}
			cmd.Printf("The update of all nodes to version %s has started. Run gateway-ctl rolling-update to see its progress.\n", u.To)
			return nil
		},
	})
	return show
}
