// Command gateway-license creates and reads licenses. It is for the issuer of licenses; no gateway needs it.
package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/license/document"
)

func main() {
	root := &cobra.Command{
		Use: "gateway-license", Short: "Create and read licenses",
		SilenceUsage: true, SilenceErrors: true, CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(keypairCommand(), signCommand(), showCommand())
	root.SetOut(os.Stdout)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func keypairCommand() *cobra.Command {
	return &cobra.Command{
		Use: "keypair FILE", Short: "Create a key pair: the private key is written to a new file, the public key is printed", Args: cobra.ExactArgs(1),
		Long: `Make a key pair: the private key goes into a new file, the public key is printed.

Licenses are signed with the private key: keep it apart from every gateway. The public key
goes into the programs when they are built: make build LICENSE_PUBLIC_KEY=...`,
		RunE: func(cmd *cobra.Command, args []string) error {
			public, private, err := ed25519.GenerateKey(nil)
			if err != nil {
				return err
			}
			if err := savePrivate(args[0], private); err != nil {
				return err
			}
			cmd.Println(document.FormatPublicKey(public))
			return nil
		},
	}
}

// savePrivate writes a private key to a new file. It never overwrites one: a lost key cannot be recreated.
func savePrivate(path string, key ed25519.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der}), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func readPrivate(path string) (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s has no private key in PEM form", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the private key in %s is not an Ed25519 key", path)
	}
	return key, nil
}

func signCommand() *cobra.Command {
	var l document.License
	var keyFile, from, until string
	var nodes, domains, peers int
	cmd := &cobra.Command{
		Use: "sign", Short: "Sign a license and print it", Args: cobra.NoArgs,
		Example: "  gateway-license sign --key issuer.pem --subject 'Example Ltd' --plan Standard --domains 50 --not-after 2027-12-31",
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := readPrivate(keyFile)
			if err != nil {
				return err
			}
			if l.ID == "" {
				l.ID = uuid.NewString()
			}
			if l.NotBefore, err = moment(from, 0); err != nil {
				return fmt.Errorf("--not-before: %w", err)
			}
			if l.NotAfter, err = moment(until, 24*time.Hour-time.Second); err != nil {
				return fmt.Errorf("--not-after: %w", err)
			}
			for flag, limit := range map[string]struct {
				given *int
				field **int
			}{"nodes": {&nodes, &l.Limits.Nodes}, "domains": {&domains, &l.Limits.Domains}, "tunnel-peers": {&peers, &l.Limits.TunnelPeers}} {
				if cmd.Flags().Changed(flag) {
					*limit.field = limit.given
				}
			}
			sealed, err := document.Sign(l, key)
			if err != nil {
				return fmt.Errorf("the license cannot be signed: %w", err)
			}
			cmd.Print(sealed.Text())
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&keyFile, "key", "", "file with the private key")
	f.StringVar(&l.ID, "id", "", "id of the license (random by default)")
	f.StringVar(&l.Subject, "subject", "", "licensee")
	f.StringVar(&l.Plan, "plan", "", "plan")
	f.IntVar(&nodes, "nodes", 0, "how many nodes (no limit when it is not given)")
	f.IntVar(&domains, "domains", 0, "how many domains (no limit when it is not given)")
	f.IntVar(&peers, "tunnel-peers", 0, "how many peers of tunnels (no limit when it is not given)")
	f.StringSliceVar(&l.Features, "feature", nil, "a feature, once for each (all of them when none is given)")
	f.StringVar(&from, "not-before", time.Now().UTC().Format(time.RFC3339), "start of validity: a day, or a time like 2026-01-31T12:00:00Z")
	f.StringVar(&until, "not-after", "", "end of validity: a day (inclusive), or a time")
	f.Lookup("not-before").DefValue = "now"
	for _, name := range []string{"key", "subject", "plan", "not-after"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return cmd
}

// moment parses a time, or a day, which stands for a given time of that day.
func moment(text string, ofDay time.Duration) (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.Add(ofDay), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q must be a day such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z", text)
	}
	return at, nil
}

func showCommand() *cobra.Command {
	var public string
	cmd := &cobra.Command{
		Use: "show FILE|-", Short: "Print a license, and check its signature if a public key is given", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := document.Read(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			sealed, err := document.Parse(text)
			if err != nil {
				return fmt.Errorf("this is not a license: %w", err)
			}
			l, err := sealed.Unverified()
			if err != nil {
				return fmt.Errorf("this is not a license: %w", err)
			}
			show(cmd.OutOrStdout(), l)
			if public == "" {
				cmd.Println("signature:     not checked: give --public")
				return nil
			}
			key, err := document.ParsePublicKey(public)
			if err != nil {
				return err
			}
			if _, err := sealed.Verify(key); err != nil {
				cmd.Println("signature:     wrong")
				return errors.New("the license was not signed with the private key that belongs to this public key")
			}
			cmd.Println("signature:     right")
			return nil
		},
	}
	cmd.Flags().StringVar(&public, "public", "", "public key, as keypair has printed it")
	return cmd
}

func show(w io.Writer, l document.License) {
	limit := func(n *int) string {
		if n == nil {
			return "no limit"
		}
		return fmt.Sprint(*n)
	}
	features := strings.Join(l.Features, ", ")
	if features == "" {
		features = "all"
	}
	for _, line := range [][2]string{
		{"id", l.ID}, {"subject", l.Subject}, {"plan", l.Plan},
		{"nodes", limit(l.Limits.Nodes)}, {"domains", limit(l.Limits.Domains)}, {"tunnel peers", limit(l.Limits.TunnelPeers)},
		{"features", features}, {"not before", l.NotBefore.Format(time.RFC3339)}, {"not after", l.NotAfter.Format(time.RFC3339)},
	} {
		fmt.Fprintf(w, "%-14s %s\n", line[0]+":", line[1])
	}
}
