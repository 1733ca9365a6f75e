package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/backup/restore"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/setup"
)

// passphraseFlag adds a flag for a file with the passphrase, which must appear neither in the process list nor in the shell's
// history.
func passphraseFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "passphrase-file", "", "file whose first line is the passphrase; - for the standard input")
}

func readPassphrase(cmd *cobra.Command, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	content, err := func() ([]byte, error) {
		if file == "-" {
			return io.ReadAll(io.LimitReader(cmd.InOrStdin(), 4096))
		}
		return os.ReadFile(file)
	}()
	line, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimSuffix(line, "\r"), err
}

func keyBody(passphrase string, more map[string]any) ([]byte, error) {
	body := map[string]any{}
	for name, value := range more {
		body[name] = value
	}
	if passphrase != "" {
		body["passphrase"] = passphrase
	}
	return json.Marshal(body)
}

// workOn asks gateway-api to make or verify a backup, with the operator's passphrase.
func workOn(cmd *cobra.Command, cfg *config, file, path string) (backup.Backup, error) {
	passphrase, err := readPassphrase(cmd, file)
	if err != nil {
		return backup.Backup{}, err
	}
	body, err := keyBody(passphrase, nil)
	if err != nil {
		return backup.Backup{}, err
	}
	b, err := control.AskWithin[backup.Backup](cmd.Context(), cfg.paths(), backup.Within, http.MethodPost, path, body)
	if control.IsDown(err) {
		return b, errDown
	}
	return b, err
}

func backupCommand(cfg *config) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "backup", Short: "Back up the gateway", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			made, err := workOn(cmd, cfg, file, "/backups")
			if err != nil {
				return err
			}
			if made.Error != "" {
				return errors.New(made.Error)
			}
			cmd.Println(made.ID, made.File)
			cmd.Println(cfg.paths().Backups(made.ID.String() + ".archive"))
			return nil
		},
	}
	passphraseFlag(cmd, &file)
	return cmd
}

func backupsCommand(cfg *config) *cobra.Command {
	list := &cobra.Command{
		Use: "backups", Short: "List the backups, or add, verify and delete one", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := control.Get[[]backup.Backup](cmd.Context(), cfg.paths(), "/backups")
			if control.IsDown(err) {
				all, err = backupsHere(cfg)
			}
			if err != nil {
				return err
			}
			printBackups(cmd.OutOrStdout(), all)
			return nil
		},
	}
	var file string
	verify := &cobra.Command{
		Use: "verify ID", Short: "Test that a backup can be restored, in a temporary database", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tried, err := workOn(cmd, cfg, file, "/backups/"+args[0]+"/verify")
			if err != nil {
				return err
			}
			if tried.Proof.Error != "" {
				return errors.New(tried.Proof.Error)
			}
			cmd.Printf("It can be restored: %d rows in %d tables, in %s.\n", tried.Proof.Rows, tried.Proof.Tables, (time.Duration(tried.Proof.DurationMS) * time.Millisecond).Round(100*time.Millisecond))
			return nil
		},
	}
	passphraseFlag(verify, &file)
	list.AddCommand(verify, &cobra.Command{
		Use: "add FILE", Short: "Add an archive of this or another gateway", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			added, err := addBackup(cmd.Context(), cfg, args[0], "")
			if err == nil {
				cmd.Println(added.ID, added.File)
			}
			return err
		},
	}, &cobra.Command{
		Use: "delete ID", Short: "Delete a backup with its archive", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := control.Ask[backup.Deleted](cmd.Context(), cfg.paths(), http.MethodDelete, "/backups/"+args[0], nil)
			if control.IsDown(err) {
				return errDown
			}
			return err
		},
	})
	return list
}

func backupsHere(cfg *config) ([]backup.Backup, error) {
	k, err := cfg.Kit(cfg.Config, slog.LevelError)
	if err != nil {
		return nil, err
	}
	defer k.DB.Close()
	return backup.New(k, backup.Deps{}).All()
}

func printBackups(w io.Writer, all []backup.Backup) {
	if len(all) == 0 {
		fmt.Fprintln(w, "There are no backups.")
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tMADE\tHOST\tSIZE\tSTATUS\tPROVEN")
	for _, b := range all {
		proof := "no"
		if b.Proof != nil {
			proof = b.Proof.Status
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", b.ID, b.StartedAt.Local().Format(time.DateTime), b.Host, b.Size, b.Status, proof)
	}
	_ = table.Flush()
}

// isNew reports whether the machine is not set up yet: it then accepts archives on other routes.
func isNew(ctx context.Context, paths kit.Paths) bool {
	status, err := control.Get[setup.Status](ctx, paths, "/setup/status")
	return err == nil && !status.Completed
}

// addBackup adds an archive through gateway-api, or without it if it is down.
func addBackup(ctx context.Context, cfg *config, path, passphrase string) (b backup.Backup, err error) {
	f, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer f.Close()
	paths, door := cfg.paths(), "/backups/upload"
	if isNew(ctx, paths) {
		door = "/setup/restore/upload"
	}
	b, err = control.Send[backup.Backup](ctx, paths, backup.Within, http.MethodPost, door, "application/octet-stream", f)
	if !control.IsDown(err) {
		return b, err
	}
	k, err := cfg.Kit(cfg.Config, slog.LevelError)
	if err != nil {
		return b, err
	}
	defer k.DB.Close()
	if b, err = backup.New(k, backup.Deps{}).Bring(f, passphrase); err != nil || cfg.Root != "" {
		return b, err
	}
	uid, gid, err := files.LookupOwner(host.User, host.User)
	if err != nil {
		return b, err
	}
	return b, give(k.Paths.Backups(""), []string{b.ID.String() + ".archive", b.ID.String() + ".json"}, uid, gid)
}

// give changes the owner of files in a folder. The folder may belong to the new owner already, who could replace a file by a
// link.
func give(folder string, names []string, uid, gid int) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range append([]string{"."}, names...) {
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		err = giveOpen(f, name == ".", uid, gid)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func giveOpen(f *os.File, folder bool, uid, gid int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// A file with a second name may be one from elsewhere.
	if stat, ok := info.Sys().(*syscall.Stat_t); !folder && (!info.Mode().IsRegular() || !ok || stat.Nlink != 1) {
		return fmt.Errorf("%s is not a plain file", f.Name())
	}
	return f.Chown(uid, gid)
}

// restoreCommand shows and starts restores. It also works while gateway-api is down, when it is needed most.
func restoreCommand(cfg *config) *cobra.Command {
	var whole bool
	show := &cobra.Command{
		Use: "restore", Short: "Show the running or last restore, or begin one", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			last, err := restore.Job.Last(jobs.New(home.Home{Root: cfg.Root}, nil))
			if errors.Is(err, fs.ErrNotExist) {
				cmd.Println("The gateway has not been restored yet.")
				return nil
			}
			if err != nil {
				return err
			}
			printRestore(cmd.OutOrStdout(), last, whole)
			return nil
		},
	}
	show.Flags().BoolVar(&whole, "output", false, "also show the output of each step's programs")
	var file, from string
	var links map[string]string
	var target offsite
	begin := &cobra.Command{
		Use: "begin ID|FILE", Short: "Replace the gateway's data with a backup or an archive file. With --from, use an archive at an off-site target, by default the newest", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			passphrase, err := readPassphrase(cmd, file)
			if err != nil {
				return err
			}
			if from != "" {
				fetched, remove, err := target.fetch(cmd, from, args)
				if err != nil {
					return err
				}
				defer remove()
				args = []string{fetched}
			}
			if len(args) == 0 {
				return errors.New("say which backup: its id, a file, or --from with an off-site target")
			}
			id, err := uuid.Parse(args[0])
			if err != nil {
				added, err := addBackup(cmd.Context(), cfg, args[0], passphrase)
				if err != nil {
					return err
				}
				id = added.ID
			}
			if err := beginRestore(cmd.Context(), cfg, id, passphrase, links); err != nil {
				return err
			}
			cmd.Println("The restore has started. Run gateway-ctl restore to see its progress.")
			return nil
		},
	}
	passphraseFlag(begin, &file)
	begin.Flags().StringVar(&from, "from", "", "off-site target: s3://endpoint/bucket/folder or sftp://user@host:port/folder")
	target.flags(begin)
	begin.Flags().StringToStringVar(&links, "interface", nil, "interface of the backup and the one of this machine that takes its place: OLD=NEW")
	show.AddCommand(begin)
	return show
}

// beginRestore asks gateway-api to begin a restore, or begins it itself if that is down.
func beginRestore(ctx context.Context, cfg *config, id uuid.UUID, passphrase string, links map[string]string) error {
	more := map[string]any{}
	if len(links) > 0 {
		more["interfaces"] = links
	}
	paths, door := cfg.paths(), "/backups/"+id.String()+"/restore"
	if isNew(ctx, paths) {
		door, more["backup_id"] = "/setup/restore/begin", id
	}
	body, err := keyBody(passphrase, more)
	if err != nil {
		return err
	}
	_, err = control.AskWithin[backup.Restore](ctx, paths, backup.Within, http.MethodPost, door, body)
	if !control.IsDown(err) {
		return err
	}
	runs, err := units.Parse(cfg.Units)
	if err != nil {
		return err
	}
	starts, _ := runs.(jobs.Starter)
	return restore.Job.Begin(ctx, jobs.New(home.Home{Root: cfg.Root}, starts), restore.Wish{Backup: id.String(), Interfaces: links}, passphrase)
}

func printRestore(w io.Writer, r restore.Restore, whole bool) {
	printJob(w, [][2]string{{"state", strings.ReplaceAll(string(r.State), "_", " ")}, {"backup", r.Backup}, {"host", r.Host}}, r.Record, whole)
	for _, text := range r.Warnings {
		fmt.Fprintln(w, text)
	}
}
