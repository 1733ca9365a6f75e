package nfnl

import (
	"encoding/binary"
	"slices"
)

// kind is a data type as nft numbers it, and how long its values are.
type kind struct {
	number, length uint32
	// order is the byte order of its values: nft's number for it.
	order uint32
}

const (
	orderNone = iota
	orderHost
	orderNetwork
)

var (
	kindIPv4    = kind{7, 4, orderNetwork}
	kindIPv6    = kind{8, 16, orderNetwork}
	kindProto   = kind{12, 1, orderHost}
	kindPort    = kind{13, 2, orderNetwork}
	kindICMPv6  = kind{29, 1, orderNetwork}
	kindIfName  = kind{41, ifNameLen, orderHost}
	kindService = kind{12<<6 | 13, 8, orderNone}
)

// nft notes with a set what it needs for listing it. A note is its number, its length, and what it says, which may be notes again.
func note(number byte, content ...byte) []byte {
	return append([]byte{number, byte(len(content))}, content...)
}

func noteOf(number byte, n uint32) []byte { return note(number, native(n)...) }

// What the notes of a set are about.
const (
	noteKeyOrder = iota
	noteDataOrder
	noteMerged
	noteKey
	noteData
	_
	noteDataInterval
)

// The expressions and headers that notes name.
const (
	asVerdict = 1
	asPayload = 7
	asMeta    = 9
	asConcat  = 13

	headerUDP    = 6
	headerTCP    = 8
	headerAny    = 11
	headerIPv4   = 12
	headerIPv6   = 13
	headerICMPv6 = 14
)

// ofField says that a value is a field of a header.
func ofField(header, field uint32) []byte {
	return slices.Concat(noteOf(0, asPayload), note(1, slices.Concat(noteOf(0, header), noteOf(1, field))...))
}

// ofMeta says that a value is something that the kernel knows about the packet.
func ofMeta(key uint32) []byte { return slices.Concat(noteOf(0, asMeta), note(1, noteOf(0, key)...)) }

func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
