// Package upgrade performs the steps of an upgrade of the gateway on the machine: installing packages, stopping and starting programs, and
// backing up data.
package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/disk"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/program"
	"edge.internal/gateway/internal/kit/job"
)

// Machine is the machine that this process runs on. Its methods need root.
type Machine struct {
	Folder job.Folder
	Units  host.Units
	// Database is the address of the database, and State the state folder. Both belong to the gateway's user, and are accessed as User.
	Database, State string
	User            *syscall.Credential
	// Service reports whether the gateway serves.
	Service job.Service
}

const (
	aptGet    = "/usr/bin/apt-get"
	dpkg      = "/usr/bin/dpkg"
	dpkgDeb   = "/usr/bin/dpkg-deb"
	dpkgQuery = "/usr/bin/dpkg-query"

	shortly = time.Minute
	longer  = 20 * time.Minute
)

// keepFiles makes dpkg keep an edited conffile without asking.
var keepFiles = []string{"--force-confdef", "--force-confold"}

// aptInstall installs a package. It asks nothing, removes no package, and waits for other programs' installations.
var aptInstall = []string{
	aptGet, "install", "--yes", "--quiet", "--allow-downgrades", "--no-remove",
	"-o", "Dpkg::Use-Pty=0", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=120",
}

const aptCache = "/var/cache/apt/archives" // packages that apt has fetched

// folder creates a subfolder of the upgrades' folder that only root can read.
func (m Machine) folder(parts ...string) (string, error) {
	path := filepath.Join(append([]string{m.Folder.Path("")}, parts...)...)
	return path, os.MkdirAll(path, 0o700)
}

func (m Machine) Installed(ctx context.Context) (string, error) {
	argv := []string{dpkgQuery, "--show", "--showformat=${Version}\n", host.GatewayPackage}
	version, err := program.Run(ctx, program.Program{Argv: argv, Within: shortly})
	if err != nil {
		return "", fmt.Errorf("reading the installed version: %w", err)
	}
	version = strings.TrimSpace(version)
	return version, host.IsVersion(version)
}

func (m Machine) Live(ctx context.Context, w job.Waiting) []string { return m.Service.Live(ctx, w) }

func (m Machine) Fetch(ctx context.Context, version string) (host.PackageFile, error) {
	kept, err := m.folder("packages")
	if err != nil {
		return host.PackageFile{}, err
	}
	for _, folder := range []string{kept, aptCache} {
		if file := find(ctx, folder, version); file != "" {
			return m.keep(ctx, file, kept)
		}
	}
	fetching, err := os.MkdirTemp(kept, "fetch-")
	if err != nil {
		return host.PackageFile{}, err
	}
	defer os.RemoveAll(fetching)
	argv := []string{aptGet, "download", "--quiet", host.GatewayPackage + "=" + version}
	if _, err := program.Run(ctx, program.Program{Argv: argv, Dir: fetching, Within: longer}); err != nil {
		return host.PackageFile{}, err
	}
	file := find(ctx, fetching, version)
	if file == "" {
		return host.PackageFile{}, errors.New("apt fetched another package than the requested one")
	}
	return m.keep(ctx, file, kept)
}

// find returns the file of a version's package in a folder, or an empty string.
func find(ctx context.Context, folder, version string) string {
	candidates, _ := filepath.Glob(filepath.Join(folder, host.GatewayPackage+"_*.deb"))
	for _, file := range candidates {
		if p, err := describe(ctx, file); err == nil && p.Version == version {
			return file
		}
	}
	return ""
}

// describe reads the control data of a package.
func describe(ctx context.Context, file string) (host.PackageFile, error) {
	argv := []string{dpkgDeb, "--show", "--showformat=${Package}\t${Version}\t${Installed-Size}\n", file}
	control, err := program.Run(ctx, program.Program{Argv: argv, Within: shortly})
	if err != nil {
		return host.PackageFile{}, err
	}
	fields := strings.Split(strings.TrimSpace(control), "\t")
	if len(fields) != 3 || fields[0] != host.GatewayPackage {
		return host.PackageFile{}, fmt.Errorf("%s is not the gateway's package", filepath.Base(file))
	}
	kib, err := strconv.ParseInt(fields[2], 10, 64)
	return host.PackageFile{Version: fields[1], File: filepath.Base(file), Unpacks: kib << 10}, err
}

// keep copies a package to the folder of kept packages, unless it is there.
func (m Machine) keep(ctx context.Context, file, folder string) (host.PackageFile, error) {
	p, err := describe(ctx, file)
	if err != nil {
		return p, err
	}
	if to := filepath.Join(folder, p.File); file != to {
		if err := copyFile(to, file); err != nil {
			return p, err
		}
		file = to
	}
	p.SHA256, err = digest(file)
	return p, err
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), to); err != nil {
		return err
	}
	return disk.Sync(filepath.Dir(to))
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// kept returns the file of a fetched package after checking that it has not changed.
func (m Machine) kept(p host.PackageFile) (string, error) {
	file := filepath.Join(m.Folder.Path("packages"), filepath.Base(p.File))
	sum, err := digest(file)
	if err == nil && sum != p.SHA256 {
		err = fmt.Errorf("%s has changed since it was fetched", p.File)
	}
	return file, err
}

const (
	// headroom is the space that must stay free on each file system, in bytes.
	headroom = 64 << 20
	dumpFile = "database.dump"
	tarFile  = "state.tar"
)

func (m Machine) BackUp(ctx context.Context, id string) error {
	folder, err := m.folder("backups", id)
	if err != nil {
		return err
	}
	if err := m.stop(ctx); err != nil {
		return err
	}
	if err := m.dump(ctx, filepath.Join(folder, dumpFile)); err != nil {
		return fmt.Errorf("the database cannot be backed up: %w", err)
	}
	tar := program.Program{Argv: []string{"/usr/bin/tar", "--create", "--file=-", "--directory=" + m.State, "."}, As: m.User, Within: longer}
	if err := program.Into(ctx, filepath.Join(folder, tarFile), tar); err != nil {
		return fmt.Errorf("the state folder cannot be backed up: %w", err)
	}
	return nil
}

// programs are the gateway's programs that write its data, in the order of starting. A version may lack one.
var programs = []host.Unit{host.API, host.Scheduler}

func (m Machine) stop(ctx context.Context) error {
	for _, u := range slices.Backward(programs) {
		if err := m.Units.Stop(ctx, u); err != nil && !errors.Is(err, host.ErrNotInstalled) {
			return err
		}
	}
	return nil
}

// Resume starts the programs. It does not wait until they serve.
func (m Machine) Resume(ctx context.Context) error {
	var failures []error
	for _, u := range programs {
		if err := m.Units.Start(ctx, u); !errors.Is(err, host.ErrNotInstalled) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (m Machine) Verify(ctx context.Context, id string, former, next host.PackageFile) error {
	if problems, err := program.Run(ctx, program.Program{Argv: []string{dpkg, "--audit"}, Within: shortly}); err != nil {
		return err
	} else if strings.TrimSpace(problems) != "" {
		return fmt.Errorf("some packages are not installed completely; run dpkg --configure -a first: %s", host.FirstLines(problems))
	}
	compare := []string{dpkg, "--compare-versions", next.Version, "gt", former.Version}
	if _, err := program.Run(ctx, program.Program{Argv: compare, Within: shortly}); err != nil {
		return fmt.Errorf("version %s is not newer than the installed %s", next.Version, former.Version)
	}
	if _, err := m.kept(former); err != nil {
		return err
	}
	file, err := m.kept(next)
	if err != nil {
		return err
	}
	if err := m.apt(ctx, file, "--simulate"); err != nil {
		return fmt.Errorf("apt cannot install version %s here: %w", next.Version, err)
	}
	// Dependencies are fetched now, so that the installation needs no network.
	if err := m.apt(ctx, file, "--download-only"); err != nil {
		return fmt.Errorf("the dependencies of version %s cannot be fetched: %w", next.Version, err)
	}
	if mounted(m.State) {
		return fmt.Errorf("%s is a separate file system, which cannot be rolled back as a whole; install the package yourself", m.State)
	}
	return m.space(ctx, id, former, next)
}

// space reserves the disk space that a rollback needs, and fails unless enough is left for the installation.
func (m Machine) space(ctx context.Context, id string, former, next host.PackageFile) error {
	backup := m.Folder.Path("backups")
	state, err := os.Stat(filepath.Join(backup, id, tarFile))
	if err != nil {
		return err
	}
	data, err := m.databaseSize(ctx)
	if err != nil {
		return err
	}
	// Twice the data: the restored rows and their write-ahead log, while the old rows still exist.
	if err := m.Folder.Reserve(former.Unpacks + state.Size() + 2*data + headroom/2); err != nil {
		return fmt.Errorf("there is not enough space for a rollback of the upgrade: %w", err)
	}
	for _, path := range []string{"/usr", m.Folder.Path("")} {
		var s unix.Statfs_t
		if err := unix.Statfs(path, &s); err != nil {
			return err
		}
		if free, need := int64(s.Bavail)*s.Frsize, next.Unpacks+headroom; free < need {
			return fmt.Errorf("there is not enough space: %s has %d MiB left, and the upgrade needs %d MiB", path, free>>20, need>>20)
		}
	}
	return nil
}

// mounted reports whether a folder is the root of a file system.
func mounted(path string) bool {
	var own, above unix.Stat_t
	return unix.Stat(path, &own) == nil && unix.Stat(filepath.Dir(path), &above) == nil && own.Dev != above.Dev
}

func (m Machine) Install(ctx context.Context, next host.PackageFile) error {
	file, err := m.kept(next)
	if err != nil {
		return err
	}
	// An earlier installation may have been interrupted.
	if err := runDpkg(ctx, "--configure", "--pending"); err != nil {
		return err
	}
	return m.apt(ctx, file)
}

// apt runs an installation of a kept package. For a package in its lists apt would fetch the file again: a link in apt's cache prevents
// that.
func (m Machine) apt(ctx context.Context, file string, more ...string) error {
	cached := filepath.Join(aptCache, filepath.Base(file))
	if err := os.Link(file, cached); err == nil {
		defer os.Remove(cached)
	}
	_, err := program.Run(ctx, program.Program{Argv: slices.Concat(aptInstall, more, []string{file}), Within: longer})
	return err
}

func (m Machine) Reinstall(ctx context.Context, former host.PackageFile) error {
	file, err := m.kept(former)
	if err != nil {
		return err
	}
	// Not apt: dpkg installs a package over one that is half installed, and needs neither lists nor a network.
	return runDpkg(ctx, "--install", file)
}

// unlockedWithin is how long to wait for another program's installation; apt waits as long.
const unlockedWithin = 2 * time.Minute

// runDpkg runs dpkg when no other process holds its lock.
func runDpkg(ctx context.Context, args ...string) error {
	p := program.Program{Argv: slices.Concat([]string{dpkg}, keepFiles, args), Within: longer}
	for begun := time.Now(); ; {
		_, err := program.Run(ctx, p)
		if f, ok := errors.AsType[*program.Failed](err); !ok || !strings.Contains(f.Message, "lock") || time.Since(begun) > unlockedWithin {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Second):
		}
	}
}

func (m Machine) Restore(ctx context.Context, id string) error {
	if err := m.stop(ctx); err != nil {
		return err
	}
	folder := filepath.Join(m.Folder.Path("backups"), filepath.Base(id))
	if err := m.load(ctx, folder); err != nil {
		return fmt.Errorf("the database cannot be restored: %w", err)
	}
	if err := m.unpack(ctx, filepath.Join(folder, tarFile)); err != nil {
		return fmt.Errorf("the state folder cannot be restored: %w", err)
	}
	if err := m.Resume(ctx); err != nil {
		fmt.Fprintln(job.Output(ctx), err) // the next step checks whether they serve
	}
	return nil
}

// unpack restores the state folder: it unpacks the backup beside it, as the gateway's user, and exchanges the two in one step.
func (m Machine) unpack(ctx context.Context, archive string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	beside := m.State + ".restored"
	if err := os.RemoveAll(beside); err != nil {
		return err
	}
	if err := os.Mkdir(beside, 0o700); err != nil {
		return err
	}
	if m.User != nil {
		if err := os.Chown(beside, int(m.User.Uid), int(m.User.Gid)); err != nil {
			return err
		}
	}
	tar := []string{"/usr/bin/tar", "--extract", "--file=-", "--preserve-permissions", "--directory=" + beside}
	if _, err := program.Run(ctx, program.Program{Argv: tar, In: in, As: m.User, Within: longer}); err != nil {
		return err
	}
	if err := syncAll(beside); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, beside, unix.AT_FDCWD, m.State, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	return errors.Join(disk.Sync(filepath.Dir(m.State)), os.RemoveAll(beside))
}

// syncAll writes the file system of a folder to disk.
func syncAll(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

func (m Machine) Ready(ctx context.Context, version string, live []string) error {
	return m.Service.Ready(ctx, version, live)
}

// keepBackups is how many backups stay, including that of the last upgrade.
const keepBackups = 3

func (m Machine) Clean(id string, former, next host.PackageFile) error {
	backups, err := os.ReadDir(m.Folder.Path("backups"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The ids sort by time.
	for i, b := range backups {
		if i < len(backups)-keepBackups && b.Name() != id {
			if err := os.RemoveAll(filepath.Join(m.Folder.Path("backups"), b.Name())); err != nil {
				return err
			}
		}
	}
	fetched, err := os.ReadDir(m.Folder.Path("packages"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range fetched {
		if f.Name() != former.File && f.Name() != next.File {
			if err := os.RemoveAll(filepath.Join(m.Folder.Path("packages"), f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
