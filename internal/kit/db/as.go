package db

import (
	"context"
	"errors"
	"net"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/jackc/pgx/v5/pgconn"
)

// OpenAs is Open for a program of root's: PostgreSQL, which knows who connects to its socket by what the kernel says, sees another user.
func OpenAs(url string, who *syscall.Credential) (*DB, error) { return open(url, "", who) }

// dialAs connects as a user. Only the thread that does so changes its identity, and only meanwhile; one that cannot get its own back ends.
func dialAs(who *syscall.Credential, dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		if network != "unix" {
			return dial(ctx, network, address)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and not unlocked where the identity is not what it was: the thread ends with this goroutine
			if err = become(who.Uid, who.Gid, who.Groups); err == nil {
				conn, err = dial(ctx, network, address)
			}
			if back := become(0, 0, nil); back != nil {
				err = errors.Join(err, back)
				return
			}
			runtime.UnlockOSThread()
		}()
		<-done
		return conn, err
	}
}

// become changes who the thread acts as. What it really is stays root, so that it can come back.
func become(uid, gid uint32, groups []uint32) error {
	const same = ^uintptr(0)
	if uid == 0 { // first, for the rest takes root
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, 0, same); errno != 0 {
			return errno
		}
	}
	var list unsafe.Pointer
	if len(groups) > 0 {
		list = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(list), 0); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESGID, same, uintptr(gid), same); errno != 0 {
		return errno
	}
	if uid != 0 {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
			return errno
		}
	}
	return nil
}
