package spoe

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Kind is the type of a value on the wire.
type Kind uint8

// The kinds of the protocol, with their numbers.
const (
	Null Kind = iota
	Bool
	Int32
	Uint32
	Int64
	Uint64
	IPv4
	IPv6
	String
	Binary
)

// Value is one typed value. Its bytes are part of the frame.
type Value struct {
	kind   Kind
	number uint64
	bytes  []byte
}

// Kind says which accessor has the value.
func (v Value) Kind() Kind { return v.kind }

// Bool returns the value of a Bool, and false for every other kind.
func (v Value) Bool() bool { return v.kind == Bool && v.number != 0 }

// Int returns the value of a number of any width, and 0 for every other kind.
func (v Value) Int() int64 {
	switch v.kind {
	case Int32, Uint32, Int64, Uint64:
		return int64(v.number)
	}
	return 0
}

// Addr returns the value of an address, and the zero Addr for every other kind.
func (v Value) Addr() netip.Addr {
	switch v.kind {
	case IPv4:
		return netip.AddrFrom4([4]byte(v.bytes))
	case IPv6:
		return netip.AddrFrom16([16]byte(v.bytes))
	}
	return netip.Addr{}
}

// Bytes returns the content of a String or a Binary, and nil for every other kind. It is a view into the frame: it must be neither
// changed nor kept.
func (v Value) Bytes() []byte {
	if v.kind == String || v.kind == Binary {
		return v.bytes
	}
	return nil
}

// errShort is the error for everything that claims to be longer than the available bytes, or that is cut off.
var (
	errShort    = errors.New("a length reaches beyond the end of its frame")
	errVarint   = errors.New("a number has more than 64 bits")
	errType     = errors.New("a value has an unknown type")
	errRequired = errors.New("the frame lacks what its type requires")
)

// Varint removes a number in the protocol's variable-length encoding from the front of b. It returns false if b ends within the number,
// or the number exceeds 64 bits.
func Varint(b []byte) (n uint64, rest []byte, ok bool) {
	n, rest, err := varint(b)
	return n, rest, err == nil
}

func varint(b []byte) (uint64, []byte, error) {
	if len(b) == 0 {
		return 0, nil, errShort
	}
	n := uint64(b[0])
	if n < 240 {
		return n, b[1:], nil
	}
	shift := 4
	for i := 1; i < len(b); i++ {
		// The bits overlap: each byte adds to the number instead of supplying its own bits.
		part := uint64(b[i])
		if shift > 60 || part<<shift>>shift != part || n+part<<shift < n {
			return 0, nil, errVarint
		}
		n += part << shift
		if part < 128 {
			return n, b[i+1:], nil
		}
		shift += 7
	}
	return 0, nil, errShort
}

// AppendVarint appends a number in the protocol's variable-length encoding.
func AppendVarint(b []byte, n uint64) []byte {
	if n < 240 {
		return append(b, byte(n))
	}
	b = append(b, byte(n)|240)
	for n = (n - 240) >> 4; n >= 128; n = (n - 128) >> 7 {
		b = append(b, byte(n)|128)
	}
	return append(b, byte(n))
}

// Text removes length-prefixed bytes from the front of b.
func Text(b []byte) (text, rest []byte, ok bool) {
	text, rest, err := counted(b)
	return text, rest, err == nil
}

func counted(b []byte) (text, rest []byte, err error) {
	n, b, err := varint(b)
	if err != nil {
		return nil, nil, err
	}
	if n > uint64(len(b)) {
		return nil, nil, errShort
	}
	return b[:n:n], b[n:], nil
}

// AppendText appends length-prefixed bytes.
func AppendText[T string | []byte](b []byte, text T) []byte {
	return append(AppendVarint(b, uint64(len(text))), text...)
}

// value removes a typed value from the front of b.
func value(b []byte) (v Value, rest []byte, err error) {
	if len(b) == 0 {
		return v, nil, errShort
	}
	v.kind = Kind(b[0] & 0x0f)
	flags := b[0] >> 4
	b = b[1:]
	width := 0
	switch v.kind {
	case Null:
		return v, b, nil
	case Bool:
		v.number = uint64(flags & 1)
		return v, b, nil
	case Int32, Uint32, Int64, Uint64:
		v.number, rest, err = varint(b)
		return v, rest, err
	case String, Binary:
		v.bytes, rest, err = counted(b)
		return v, rest, err
	case IPv4:
		width = 4
	case IPv6:
		width = 16
	default:
		return v, nil, errType
	}
	if len(b) < width {
		return v, nil, errShort
	}
	v.bytes = b[:width:width]
	return v, b[width:], nil
}

// item removes a name and its value from the front of b.
func item(b []byte) (name []byte, v Value, rest []byte, err error) {
	if name, rest, err = counted(b); err != nil {
		return nil, v, nil, err
	}
	v, rest, err = value(rest)
	return name, v, rest, err
}

// Scope is the lifetime of a variable in HAProxy.
type Scope byte

// The scopes of the protocol, with their numbers.
const (
	Process Scope = iota
	Session
	Transaction
	Request
	Response
)

// Answer collects the variables that HAProxy must set. It is written as the frame that acknowledges a Notify.
type Answer struct {
	b    []byte // the whole frame, including its length
	head int    // where the list of actions begins
}

const setVar, setVarArgs = 1, 3

func (a *Answer) set(s Scope, name string, k Kind, flags byte) {
	a.b = AppendText(append(a.b, setVar, setVarArgs, byte(s)), name)
	a.b = append(a.b, byte(k)|flags<<4)
}

func (a *Answer) SetText(s Scope, name, text string) {
	a.set(s, name, String, 0)
	a.b = AppendText(a.b, text)
}

func (a *Answer) SetInt(s Scope, name string, n int64) {
	a.set(s, name, Int64, 0)
	a.b = AppendVarint(a.b, uint64(n))
}

func (a *Answer) SetBool(s Scope, name string, truth bool) {
	flags := byte(0)
	if truth {
		flags = 1
	}
	a.set(s, name, Bool, flags)
}

// SetAddr sets a variable to an address; an invalid one unsets it.
func (a *Answer) SetAddr(s Scope, name string, addr netip.Addr) {
	kind := Null
	switch {
	case addr.Is4():
		kind = IPv4
	case addr.Is6():
		kind = IPv6
	}
	a.set(s, name, kind, 0)
	a.b = append(a.b, addr.AsSlice()...)
}

// Clear removes everything that was set.
func (a *Answer) Clear() { a.b = a.b[:a.head] }

// begin starts the acknowledging frame.
func (a *Answer) begin(stream, frame uint64) {
	a.b = appendHead(a.b[:0], frameAck, stream, frame)
	a.head = len(a.b)
}

// end completes the frame, whose length is only known now.
func (a *Answer) end() []byte { return seal(a.b) }

// appendHead appends room for a frame's length, and the common beginning of every frame.
func appendHead(b []byte, kind byte, stream, frame uint64) []byte {
	b = append(b, 0, 0, 0, 0, kind)
	b = binary.BigEndian.AppendUint32(b, flagFin)
	return AppendVarint(AppendVarint(b, stream), frame)
}

// seal writes the length of a frame into the room for it.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-lengthSize))
	return b
}
