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

// OpenAs is Open for a program of root: PostgreSQL, which asks the kernel who connects to its socket, sees another user.
func OpenAs(url string, who *syscall.Credential) (*DB, error) { return open(url, "", who) }

// dialAs connects as another user. Only the dialing thread changes its identity, and only during the dial; if it cannot change
// back, it ends.
func dialAs(who *syscall.Credential, dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		if network != "unix" {
			return dial(ctx, network, address)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // not unlocked if the identity cannot be restored: the thread then ends with this goroutine
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

// become changes the effective identity of the thread. Its real identity stays root, so that it can change back.
func become(uid, gid uint32, groups []uint32) error {
	const same = ^uintptr(0)
	if uid == 0 { // first, because the rest needs root
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
