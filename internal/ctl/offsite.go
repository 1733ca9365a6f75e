package ctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/backup/remote"
)

// offsite holds the options of an off-site target on the command line, for a new machine that has no targets configured.
type offsite struct {
	login                            remote.Login
	secretFile, identityFile, caFile string
}

// flags adds the options of a target. Secrets come from files: they must appear neither in the process list nor in the shell's
// history.
func (o *offsite) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.login.AccessKey, "access-key", os.Getenv("AWS_ACCESS_KEY_ID"), "id of the S3 access key (AWS_ACCESS_KEY_ID)")
	f.StringVar(&o.login.Region, "region", os.Getenv("AWS_REGION"), "region of the bucket (AWS_REGION)")
	f.StringVar(&o.secretFile, "secret-file", "", "file whose first line is the S3 secret key or the SFTP password; - for standard input (AWS_SECRET_ACCESS_KEY for S3)")
	f.StringVar(&o.identityFile, "identity", "", "file with the private key for SFTP")
	f.StringVar(&o.login.HostKey, "host-key", "", "fingerprint of the SFTP server's key, SHA256:…")
	f.StringVar(&o.caFile, "ca", "", "file with the PEM certificate of the S3 service's own certificate authority")
	f.BoolVar(&o.login.Plain, "no-tls", false, "reach the S3 service without TLS")
}

// at reads the files, and returns the place at an address.
func (o *offsite) at(cmd *cobra.Command, address string) (*remote.Place, error) {
	login := o.login
	var err error
	if login.Secret, err = readPassphrase(cmd, o.secretFile); err != nil {
		return nil, err
	}
	if login.Secret == "" && strings.HasPrefix(address, "s3://") {
		login.Secret = os.Getenv("AWS_SECRET_ACCESS_KEY")
	}
	for file, to := range map[string]*string{o.identityFile: &login.PrivateKey, o.caFile: &login.CA} {
		if file == "" {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		*to = string(content)
	}
	return remote.At(address, login)
}

// fetch copies the named archive, or the newest, into a temporary folder.
func (o *offsite) fetch(cmd *cobra.Command, address string, names []string) (file string, remove func(), err error) {
	place, err := o.at(cmd, address)
	if err != nil {
		return "", nil, err
	}
	// Not in /tmp, which may be in memory: an archive can be large.
	dir, err := os.MkdirTemp("/var/tmp", "gateway-restore-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file = filepath.Join(dir, "archive")
	name, err := fetchInto(cmd.Context(), place, append(names, "latest")[0], file)
	if err != nil {
		remove()
		return "", nil, err
	}
	cmd.Println("Fetched", name)
	return file, remove, nil
}

// offsiteCommand lists and fetches archives at an off-site target, without gateway-api and its database.
func offsiteCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "offsite", Short: "List and fetch archives at an off-site target: s3://endpoint/bucket/folder or sftp://user@host:port/folder"}
	var listing, fetching offsite
	list := &cobra.Command{
		Use: "list URL", Short: "List the archives at an off-site target", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := listing.at(cmd, args[0])
			if err != nil {
				return err
			}
			all, err := place.List(cmd.Context())
			if err != nil {
				return err
			}
			if len(all) == 0 {
				cmd.Println("There are no archives.")
				return nil
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "WRITTEN\tHOST\tSIZE\tFILE")
			for _, a := range all {
				fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", a.ModifiedAt.Local().Format(time.DateTime), a.Host, a.Size, a.File)
			}
			return table.Flush()
		},
	}
	listing.flags(list)
	fetch := &cobra.Command{
		Use: "fetch URL ARCHIVE FILE", Short: "Copy an archive to a file. ARCHIVE is a name from the list, or latest", Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := fetching.at(cmd, args[0])
			if err != nil {
				return err
			}
			name, err := fetchInto(cmd.Context(), place, args[1], args[2])
			if err == nil {
				cmd.Println(name)
			}
			return err
		},
	}
	fetching.flags(fetch)
	cmd.AddCommand(list, fetch)
	return cmd
}

// fetchInto copies an archive into a new file, which appears once it is complete.
func fetchInto(ctx context.Context, place *remote.Place, name, file string) (fetched string, err error) {
	if name == "latest" {
		all, err := place.List(ctx)
		if err != nil {
			return "", err
		}
		if len(all) == 0 {
			return "", errors.New("there are no archives of a gateway")
		}
		name = all[0].File
	}
	out, err := os.CreateTemp(filepath.Dir(file), ".fetching-*") // mode 0600: an archive holds secrets
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name()) // fails once it has been renamed
	defer out.Close()
	if _, err := place.Fetch(ctx, name, out); err != nil {
		return "", err
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return "", err
	}
	return name, os.Rename(out.Name(), file)
}
