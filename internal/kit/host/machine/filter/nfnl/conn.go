// Package nfnl is a client of the kernel's nfnetlink: it reads the packet filter's tables, the packets that they log and the tracked
// connections, and creates and changes the gateway's own table.
//
// It exists beside the libraries because a gateway reads thousands of counters and hundreds of thousands of logged packets a second: it
// allocates nothing per message, and parses only what is needed. It compiles tables from their text, of which it accepts only the part of
// nft's language that the gateway uses: a compromised client can do nothing else through it.
package nfnl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	headerLen    = unix.SizeofNlMsghdr
	genMsgLen    = 4                     // struct nfgenmsg: family, version, resource id
	messageLen   = headerLen + genMsgLen // everything before the attributes
	dumpBuffer   = 64 << 10              // the kernel fills at most 32 KiB at a time
	dumpFlags    = unix.NLM_F_DUMP       // many answers, then NLMSG_DONE
	requestFlags = unix.NLM_F_ACK        // one answer or none, then an acknowledgement
	// defaultSendBuffer is the length of a message that every socket may send.
	defaultSendBuffer = 64 << 10
)

// conn is a netlink socket. Only one goroutine may use it at a time.
type conn struct {
	file *os.File
	raw  syscall.RawConn
	out  []byte // the request
	in   []byte // what was received
	seq  uint32
	// sendBuffer is the maximum length of a message.
	sendBuffer int
	// enlarged is set once the receive buffer has room for notifications about many rules.
	enlarged bool
	// receive is created once, because a closure per datagram would be garbage per datagram.
	receive  func(fd uintptr) bool
	received int
	failed   error
}

// dial opens a socket that receives datagrams of up to size bytes.
func dial(size int) (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening a netfilter socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("binding a netfilter socket: %w", err)
	}
	c := &conn{file: os.NewFile(uintptr(fd), "nfnetlink"), in: make([]byte, size), sendBuffer: defaultSendBuffer}
	c.receive = func(fd uintptr) bool {
		for {
			c.received, c.failed = unix.Read(int(fd), c.in)
			if !errors.Is(c.failed, unix.EINTR) {
				return !errors.Is(c.failed, unix.EAGAIN)
			}
		}
	}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.file.Close()
		return nil, err
	}
	return c, nil
}

// until makes reads fail when the context ends. The returned function undoes that.
func (c *conn) until(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { _ = c.file.SetReadDeadline(time.Unix(1, 0)) })
}

// Socket sends requests to the kernel. It keeps a connection open between requests: the kernel takes longer to close one than to answer,
// because it waits for all readers of its tables.
type Socket struct {
	mu   sync.Mutex
	idle *conn

	followers followers
}

// use calls f with a connection. A connection that has failed is not reused.
func (s *Socket) use(ctx context.Context, f func(c *conn) error) error {
	s.mu.Lock()
	c := s.idle
	s.idle = nil
	s.mu.Unlock()
	if c == nil {
		var err error
		if c, err = dial(dumpBuffer); err != nil {
			return err
		}
	}
	stop := c.until(ctx)
	err := f(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !stop() || err != nil || s.idle != nil {
		c.file.Close()
		return err
	}
	s.idle = c
	return nil
}

func (s *Socket) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle.file.Close()
		s.idle = nil
	}
}

// read receives a datagram, which is valid until the next call.
func (c *conn) read(ctx context.Context) ([]byte, error) {
	if err := c.raw.Read(c.receive); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	if c.failed != nil {
		return nil, c.failed
	}
	return c.in[:c.received], nil
}

// begin starts a request. Attributes are appended to c.out.
func (c *conn) begin(kind, flags uint16, family uint8, resource uint16) {
	c.seq++
	c.out = append(c.out[:0], make([]byte, messageLen)...)
	binary.NativeEndian.PutUint16(c.out[4:], kind)
	binary.NativeEndian.PutUint16(c.out[6:], flags|unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(c.out[8:], c.seq)
	c.out[headerLen] = family
	binary.BigEndian.PutUint16(c.out[headerLen+2:], resource)
}

// text adds an attribute with a text, which must end with a NUL.
func (c *conn) text(kind uint16, s string) {
	c.out = appendAttr(c.out, kind, append([]byte(s), 0))
}

// exchange sends the request, and calls answer with the kind and the attributes of each reply, which answer must not keep. An error of
// the kernel is a syscall.Errno.
func (c *conn) exchange(ctx context.Context, answer func(kind uint16, attrs []byte)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	binary.NativeEndian.PutUint32(c.out, uint32(len(c.out)))
	if _, err := c.file.Write(c.out); err != nil {
		return fmt.Errorf("sending a request to the kernel: %w", errno(err))
	}
	for {
		datagram, err := c.read(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the kernel: %w", err)
		}
		for m := range messages(datagram) {
			if m.seq != c.seq {
				continue
			}
			switch m.kind {
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				if refusal := m.refusal(); refusal != 0 {
					return refusal
				}
				return nil
			case unix.NLMSG_NOOP, unix.NLMSG_OVERRUN:
			default:
				if answer != nil && len(m.body) >= genMsgLen {
					answer(m.kind, m.body[genMsgLen:])
				}
			}
		}
	}
}

// errno unwraps the fs.PathError of a failed write.
func errno(err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return err
}
