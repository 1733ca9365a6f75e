package lab

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/machine/files"
)

// shadowed are the folders of the machine that the lab can read, while its changes to them stay in its memory.
var shadowed = []string{"/etc", "/var"}

// databaseFolder holds the data of PostgreSQL.
var databaseFolder = host.Folder{Path: "/var/lib/postgresql", Mode: 0o755, Owner: "postgres", Group: "postgres"}

// peeringFolder holds PostgreSQL's settings for other nodes.
var peeringFolder = host.Folder{Path: postgresql.Folder, Mode: 0o755, Owner: "root", Group: "root"}

// isolate creates the mounts of the lab.
func isolate(p plan) error {
	// Mounts from here on must not propagate to the machine.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if p.HAProxy != "" {
		spec, err := haproxy.Unit.Spec()
		if err != nil {
			return err
		}
		if err := mount(p.HAProxy, spec.Binary, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	kept, err := keep(p.Dir, p.Programs)
	if err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return err
	}
	if err := mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	for _, dir := range shadowed {
		if err := shadow(dir); err != nil {
			return err
		}
	}
	if err := addUsers(); err != nil {
		return err
	}
	if err := kept.restore(); err != nil {
		return err
	}
	if err := bindFolders(p); err != nil {
		return err
	}
	if err := installPrograms(p); err != nil {
		return err
	}
	if err := installJudge(p); err != nil {
		return err
	}
	return identify(p)
}

// programFolder is where the gateway's programs are, inside a lab: the gateway's user may not have access to a checkout.
const programFolder = "/run/gateway-lab/programs"

func installPrograms(p plan) error {
	if err := os.MkdirAll(programFolder, 0o755); err != nil {
		return err
	}
	return mount(p.Programs, programFolder, "", unix.MS_BIND, "")
}

// installJudge makes squid's external ACL program available at the path where a package installs it.
func installJudge(p plan) error {
	program := filepath.Join(p.Programs, filepath.Base(squid.JudgeProgram))
	dir := filepath.Dir(squid.JudgeProgram)
	if _, err := os.Stat(program); err != nil {
		return nil // not built
	}
	if _, err := os.Stat(dir); err != nil {
		return nil // squid is not installed
	}
	if err := shadow(dir); err != nil {
		return err
	}
	if err := os.WriteFile(squid.JudgeProgram, nil, 0o755); err != nil {
		return err
	}
	return mount(program, squid.JudgeProgram, "", unix.MS_BIND, "")
}

// mount adds the target to the errors of unix.Mount.
func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mounting %s: %w", strings.TrimSpace(kind+" "+target), err)
	}
	return nil
}

// shadow covers a folder with an overlay whose changes are in the memory of /run.
func shadow(dir string) error {
	changes := filepath.Join("/run/gateway-lab/shadow", dir)
	upper, work := filepath.Join(changes, "upper"), filepath.Join(changes, "work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return mount("overlay", dir, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work))
}

// keptFolders are folders that remain visible although their surroundings are covered.
type keptFolders []*os.File

// keep opens the folders that will be covered.
func keep(dirs ...string) (kept keptFolders, err error) {
	for _, dir := range dirs {
		if !slices.ContainsFunc(append([]string{"/run", "/dev/shm"}, shadowed...), func(cover string) bool { return below(dir, cover) }) {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		kept = append(kept, f)
	}
	return kept, nil
}

// restore binds the folders to their former paths.
func (kept keptFolders) restore() error {
	for _, f := range kept {
		if err := os.MkdirAll(f.Name(), 0o755); err != nil {
			return err
		}
		if err := mount(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), f.Name(), "", unix.MS_BIND, ""); err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// bindFolders binds the units' persistent folders over their production paths, and creates those below /run.
func bindFolders(p plan) error {
	var bound []string
	for _, f := range folders() {
		source := filepath.Join(p.Dir, "root", f.Path)
		inRun := below(f.Path, "/run")
		if inRun || slices.ContainsFunc(bound, func(b string) bool { return below(f.Path, b) }) {
			source = f.Path
		}
		if err := makeFolder(source, f); err != nil {
			return err
		}
		if source == f.Path {
			continue
		}
		if err := os.MkdirAll(f.Path, 0o755); err != nil {
			return err
		}
		if err := mount(source, f.Path, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		bound = append(bound, f.Path)
	}
	return nil
}

// folders returns those of all units, parents first.
func folders() []host.Folder {
	all := []host.Folder{databaseFolder, peeringFolder}
	for _, spec := range host.UnitSpecs() {
		all = append(all, spec.Folders...)
	}
	slices.SortStableFunc(all, func(a, b host.Folder) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(all, func(a, b host.Folder) bool { return a.Path == b.Path })
}

// makeFolder creates a folder with its mode and owner.
func makeFolder(path string, f host.Folder) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(path, f.Mode); err != nil {
		return err
	}
	uid, gid, err := files.LookupOwner(f.Owner, f.Group)
	if err != nil || os.Geteuid() != 0 {
		return nil // the owner comes with the daemon's package, without which it is not needed
	}
	return os.Chown(path, uid, gid)
}

// identify gives the lab its own name and machine id, so that two labs are two machines.
func identify(p plan) error {
	if err := unix.Sethostname([]byte(p.name())); err != nil {
		return fmt.Errorf("naming the machine: %w", err)
	}
	id, err := machineID(filepath.Join(p.Dir, "machine-id"))
	if err != nil {
		return err
	}
	for path, content := range map[string]string{
		"/etc/machine-id": id,
		"/etc/hostname":   p.name() + "\n",
		"/etc/hosts":      hosts(p),
	} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// machineID reads the lab's machine id, which is created at the first start.
func machineID(path string) (string, error) {
	content, err := os.ReadFile(path)
	if !errors.Is(err, os.ErrNotExist) {
		return string(content), err
	}
	id := make([]byte, 16)
	rand.Read(id)
	text := hex.EncodeToString(id) + "\n"
	return text, os.WriteFile(path, []byte(text), 0o644)
}
