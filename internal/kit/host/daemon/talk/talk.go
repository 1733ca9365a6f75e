// Package talk speaks to daemons on their sockets.
package talk

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// answerLimit bounds what is read of an answer.
const answerLimit = 64 << 20

// Tell sends a text to a daemon's socket and returns all that comes back.
func Tell(ctx context.Context, socket, text string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	_, err = io.WriteString(conn, text)
	if err == nil {
		err = conn.(*net.UnixConn).CloseWrite() // or HAProxy's master would wait for more
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

// Peer is the user at the other end of a unix socket, as the kernel knows it.
func Peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return peer, errors.Join(failed, err)
}

// Pause waits, or until the context ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
