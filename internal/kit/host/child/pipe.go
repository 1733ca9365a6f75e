package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is the most that an unprivileged process may set by default, in bytes.
const pipeSize = 1 << 20

// Pipe returns a pipe for megabytes of output. With the default size, writer and reader would wait for each other every few pages,
// which dominates on a busy machine.
func Pipe() (read, write *os.File, err error) {
	read, write, err = os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	raw, err := write.SyscallConn()
	if err == nil {
		// If the system allows no more, the pipe keeps its default size.
		err = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
	if err != nil {
		read.Close()
		write.Close()
		return nil, nil, err
	}
	return read, write, nil
}
