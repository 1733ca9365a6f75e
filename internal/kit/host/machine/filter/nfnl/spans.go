package nfnl

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/value"
)

// span is an inclusive range of values. bits is the prefix length if it was written as a network, and -1 otherwise.
type span struct {
	first, last []byte
	bits        int
}

// spans reads addresses, networks and ranges of one family.
func spans(items []string, k kind) ([]span, error) {
	list := make([]span, 0, len(items))
	for _, item := range items {
		s, err := parseSpan(item)
		if err != nil || len(s.first) != int(k.length) || slices.Compare(s.first, s.last) > 0 {
			return nil, foreign(item)
		}
		// The gateway writes them in order, and without overlap.
		if n := len(list); n > 0 && slices.Compare(list[n-1].last, s.first) >= 0 {
			return nil, foreign(item)
		}
		list = append(list, s)
	}
	return list, nil
}

func parseSpan(item string) (s span, err error) {
	if strings.IndexByte(item, '/') >= 0 {
		p, err := netip.ParsePrefix(item)
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return s, foreign(item)
		}
		return span{p.Addr().AsSlice(), value.Last(p).AsSlice(), p.Bits()}, nil
	}
	from, to, ranged := strings.Cut(item, "-")
	first, err := netip.ParseAddr(from)
	if err != nil || first.Zone() != "" {
		return s, foreign(item)
	}
	last := first
	if ranged {
		if last, err = netip.ParseAddr(to); err != nil || last.Zone() != "" || last.BitLen() != first.BitLen() {
			return s, foreign(item)
		}
	}
	return span{first.AsSlice(), last.AsSlice(), -1}, nil
}

// portSpan reads a port or a range of ports.
func portSpan(item string) (s span, err error) {
	from, to, ranged := strings.Cut(item, "-")
	if !ranged {
		to = from
	}
	first, err1 := number(from, 16)
	last, err2 := number(to, 16)
	if err1 != nil || err2 != nil || first > last {
		return s, foreign(item)
	}
	return span{binary.BigEndian.AppendUint16(nil, uint16(first)), binary.BigEndian.AppendUint16(nil, uint16(last)), -1}, nil
}

// openEnd is the user data that nft stores with an element that has no end.
var openEnd = binary.NativeEndian.AppendUint32([]byte{1, 4}, 1)

// intervals returns the elements of a set with these spans. If none of them is a range, they are plain elements.
func intervals(list []span) (elements []element, flags uint32) {
	if !slices.ContainsFunc(list, func(s span) bool { return string(s.first) != string(s.last) || s.bits >= 0 }) {
		for _, s := range list {
			elements = append(elements, element{key: s.first})
		}
		return elements, 0
	}
	return bounds(list), unix.NFT_SET_INTERVAL
}

// bounds returns the elements of a set with these spans: an end at the lowest value, unless a span starts there, and those of the spans.
func bounds(list []span) []element {
	if len(list) == 0 || zero(list[0].first) {
		return ends(list)
	}
	lowest := element{key: make([]byte, len(list[0].first)), flags: unix.NFT_SET_ELEM_INTERVAL_END}
	return append([]element{lowest}, ends(list)...)
}

// ends returns the starts of spans, and the values after their ends.
func ends(list []span) (elements []element) {
	for i, s := range list {
		e := element{key: s.first}
		next, more := after(s.last)
		if !more {
			e.userdata = openEnd
		}
		elements = append(elements, e)
		// If the next span follows at once, its start also ends this one.
		if more && (i+1 == len(list) || string(list[i+1].first) != string(next)) {
			elements = append(elements, element{key: next, flags: unix.NFT_SET_ELEM_INTERVAL_END})
		}
	}
	return elements
}

func zero(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }

// after returns the next value; false if there is none.
func after(b []byte) ([]byte, bool) {
	next := slices.Clone(b)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next, true
		}
	}
	return nil, false
}
