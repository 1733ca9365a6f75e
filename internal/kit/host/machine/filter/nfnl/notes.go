package nfnl

import (
	"encoding/binary"
	"slices"
)

// kind is a data type: nft's number for it, and the length of its values.
type kind struct {
	number, length uint32
	// order is nft's number for the byte order of the values.
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

// note returns a piece of the user data that nft stores with a set for listing it: number, length, and content, which may be notes again.
func note(number byte, content ...byte) []byte {
	return append([]byte{number, byte(len(content))}, content...)
}

func noteOf(number byte, n uint32) []byte { return note(number, native(n)...) }

// The numbers of a set's notes.
const (
	noteKeyOrder = iota
	noteDataOrder
	noteMerged
	noteKey
	noteData
	_
	noteDataInterval
)

// nft's numbers for expressions and headers.
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

// ofField describes a value that is a field of a header.
func ofField(header, field uint32) []byte {
	return slices.Concat(noteOf(0, asPayload), note(1, slices.Concat(noteOf(0, header), noteOf(1, field))...))
}

// ofMeta describes a value from a packet's metadata.
func ofMeta(key uint32) []byte { return slices.Concat(noteOf(0, asMeta), note(1, noteOf(0, key)...)) }

func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
