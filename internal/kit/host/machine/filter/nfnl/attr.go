package nfnl

import (
	"bytes"
	"encoding/binary"
	"iter"
	"syscall"

	"golang.org/x/sys/unix"
)

type message struct {
	kind uint16
	seq  uint32
	body []byte
}

// messages iterates over the messages of a datagram, up to the first truncated one.
func messages(b []byte) iter.Seq[message] {
	return func(yield func(message) bool) {
		for len(b) >= headerLen {
			n := int(binary.NativeEndian.Uint32(b))
			if n < headerLen || n > len(b) {
				return
			}
			if !yield(message{kind: binary.NativeEndian.Uint16(b[4:]), seq: binary.NativeEndian.Uint32(b[8:]), body: b[headerLen:n]}) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

// refusal returns the error of a message of kind NLMSG_ERROR or NLMSG_DONE; zero means success.
func (m message) refusal() syscall.Errno {
	if len(m.body) < 4 {
		return 0
	}
	return syscall.Errno(-int32(binary.NativeEndian.Uint32(m.body)))
}

// attributes iterates over the attributes of a message or of a nested attribute, up to the first truncated one.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			n := int(binary.NativeEndian.Uint16(b))
			if n < unix.SizeofNlAttr || n > len(b) {
				return
			}
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofNlAttr:n]) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

// appendAttr adds an attribute and its padding.
func appendAttr(b []byte, kind uint16, data []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, data...)
	return append(b, make([]byte, align(len(data))-len(data))...)
}

func align(n int) int { return (n + 3) &^ 3 }

// cString returns the text before the NUL.
func cString(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// be32 reads a number in network byte order. A value that is too short reads as zero.
func be32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func be64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// comment finds the comment in the user data of a table or a rule, where nft stores it as entry 0: kind, length, text, NUL.
func comment(userdata []byte) []byte {
	for len(userdata) >= 2 {
		kind, n := userdata[0], int(userdata[1])
		if n > len(userdata)-2 {
			return nil
		}
		if kind == 0 {
			return cString(userdata[2 : 2+n])
		}
		userdata = userdata[2+n:]
	}
	return nil
}
