// Package talk exchanges text with daemons over their Unix sockets.
package talk

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// answerLimit is in bytes.
const answerLimit = 64 << 20

// Ask sends a text to a daemon's socket, and reads until the daemon closes the connection.
func Ask(ctx context.Context, socket, text string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	_, err = io.WriteString(conn, text)
	if err == nil {
		err = conn.(*net.UnixConn).CloseWrite() // otherwise HAProxy's master waits for more
	}
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(io.LimitReader(conn, answerLimit))
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return string(answer), err
}

// Peer returns the process and the user at the other end of a Unix socket, according to the kernel.
func Peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return peer, errors.Join(failed, err)
}

// Pause sleeps for d, or until the context ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
