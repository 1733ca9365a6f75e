package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is the most that a program without privileges may ask for.
const pipeSize = 1 << 20

// Pipe is a pipe for what a program says by the megabyte. In one of the usual size, who writes and who reads wait for each other every few
// pages, which on a busy machine is most of the time.
func Pipe() (read, write *os.File, err error) {
	read, write, err = os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	raw, err := write.SyscallConn()
	if err == nil {
		// A system that gives no more gives the usual size.
		err = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
	if err != nil {
		read.Close()
		write.Close()
		return nil, nil, err
	}
	return read, write, nil
}
