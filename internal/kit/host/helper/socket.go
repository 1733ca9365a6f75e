package helper

import (
	"bytes"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

const readSize = 64 << 10

// socket is one end of a connection. Files cross it as descriptors beside the data.
type socket struct {
	*net.UnixConn
	file *os.File // received last and not yet taken
}

// Read keeps a descriptor that comes with the data.
func (s *socket) Read(p []byte) (int, error) {
	var rights [32]byte
	n, m, _, _, err := s.ReadMsgUnix(p, rights[:])
	switch {
	case err != nil:
		return 0, err
	case n == 0 && m == 0:
		return 0, io.EOF
	case m == 0:
		return n, nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return n, err
	}
	for _, message := range messages {
		descriptors, err := unix.ParseUnixRights(&message)
		if err != nil {
			return n, err
		}
		for _, fd := range descriptors {
			if s.file != nil {
				s.file.Close()
			}
			s.file = os.NewFile(uintptr(fd), "received")
		}
	}
	return n, nil
}

// take returns the file received last; nil if there is none.
func (s *socket) take() *os.File {
	file := s.file
	s.file = nil
	return file
}

func (s *socket) send(head any, values []any) error {
	var message bytes.Buffer
	var rights []byte
	enc := encoding.NewEncoder(&message)
	if err := enc.Encode(head); err != nil {
		return err
	}
	for _, v := range values {
		if file, ok := v.(*os.File); ok {
			if file != nil {
				var err error
				if rights, err = rightsTo(file); err != nil {
					return err
				}
			}
			continue
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	if rights == nil {
		_, err := s.Write(message.Bytes())
		return err
	}
	_, _, err := s.WriteMsgUnix(message.Bytes(), rights, nil)
	return err
}

// rightsTo encodes a file's descriptor. File.Fd would switch the file, and all its copies, to blocking mode: a drained listener
// could then not be closed, because it would block in accept for a client that never comes.
func rightsTo(file *os.File) (rights []byte, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	err = raw.Control(func(fd uintptr) { rights = unix.UnixRights(int(fd)) })
	return rights, err
}
