package command

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/files"
)

// nobody is the id of the user nobody and the group nogroup, who own nothing on Debian.
const nobody = 65534

// checker returns the user that reads staged files: host.CheckUser, or nobody where the package is not installed.
func checker(rights host.Rights) (uid, gid int) {
	if rights != host.CheckingAsNobody {
		if uid, gid, err := files.LookupOwner(host.CheckUser, host.CheckUser); err == nil {
			return uid, gid
		}
	}
	return nobody, nobody
}

// attributes drop the program's rights. A process that is not root has none to drop.
func (p program) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if p.rights == host.Own || p.rights == host.Owning || os.Geteuid() != 0 {
		return a
	}
	a.Credential = &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.gid)}
	switch p.rights {
	case host.CheckingApart:
		a.Cloneflags, a.AmbientCaps = syscall.CLONE_NEWNET, []uintptr{unix.CAP_NET_ADMIN}
	case host.Loading:
		a.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	return a
}

// start starts the program. With rights other than host.Own and host.Loading it can gain no privileges, and is confined to the files that
// it needs.
func (p program) start(cmd *exec.Cmd) error {
	if p.rights == host.Own || p.rights == host.Loading {
		return cmd.Start()
	}
	started := make(chan error, 1)
	go func() {
		// The thread stays locked, so that it ends with the goroutine: the rest of this process must not be confined.
		runtime.LockOSThread()
		err := p.confine()
		if err == nil && p.rights == host.Owning {
			err = unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &make([]unix.CapUserData, 2)[0])
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}

// CommonFiles are files that every program may read: packages' libraries and data, the names of users, hosts and services, and
// certificates.
var CommonFiles = []string{
	"/usr", "/proc", "/sys/devices/system", "/dev/urandom", "/dev/random", "/dev/zero",
	"/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/resolv.conf", "/etc/hosts",
	"/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/iproute2", "/etc/connlabel.conf",
	"/etc/ssl/openssl.cnf", "/etc/ssl/certs",
}

// Access rights of Landlock, the kernel's sandbox for unprivileged processes.
const (
	reading   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	executing = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	anything  = 1<<13 - 1 // the rights of Landlock's first version
	// ofFiles are the rights that apply to files other than folders; the kernel refuses the rest.
	ofFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
)

// confine restricts this thread, and what it starts, to the files that the program needs. Debian's kernels have Landlock; on one without
// it, only the rights of the program's user apply.
func (p program) confine() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return nil
	}
	rules := unix.LandlockRulesetAttr{Handled_access_fs: anything}
	if version >= 2 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 && p.rights != host.Owning { // such a program connects to its daemon
		rules.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules), 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	defer unix.Close(int(set))
	loader, libraries := linked(p.argv[0])
	const execute = unix.LANDLOCK_ACCESS_FS_EXECUTE
	err := errors.Join(
		allow(set, reading, p.staged), allow(set, reading, CommonFiles...), allow(set, reading, libraries...), allow(set, reading, p.reads...),
		allow(set, executing, p.argv[0], loader), allow(set, ofFiles&^execute, os.DevNull),
		allow(set, uintptr(rules.Handled_access_fs)&^execute, p.writes))
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}

// allow grants access to files, and to everything below them. It skips paths that do not exist.
func allow(set, access uintptr, paths ...string) error {
	for _, path := range paths {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "open", Path: path, Err: err}
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: uint64(access), Parent_fd: int32(fd)}
		var info unix.Stat_t
		if err := unix.Fstat(fd, &info); err == nil && info.Mode&unix.S_IFMT != unix.S_IFDIR {
			rule.Allowed_access &= ofFiles
		}
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		unix.Close(fd)
		if errno != 0 {
			return &fs.PathError{Op: "landlock_add_rule", Path: path, Err: errno}
		}
	}
	return nil
}

// linked returns an ELF program's dynamic loader and the folders of its own libraries.
func linked(path string) (loader string, libraries []string) {
	f, err := elf.Open(path)
	if err != nil {
		return "", nil
	}
	defer f.Close()
	if s := f.Section(".interp"); s != nil {
		text, _ := s.Data()
		loader = strings.TrimRight(string(text), "\x00")
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		list, _ := f.DynString(tag)
		for _, folders := range list {
			libraries = append(libraries, filepath.SplitList(folders)...)
		}
	}
	return loader, libraries
}
