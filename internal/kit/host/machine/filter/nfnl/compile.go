package nfnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/value"
)

// Constants that golang.org/x/sys does not have.
const (
	verdictDrop    = 0
	verdictAccept  = 1
	setConcat      = 0x80 // NFT_SET_CONCAT
	setDescConcat  = 2    // NFTA_SET_DESC_CONCAT
	setFieldLen    = 1    // NFTA_SET_FIELD_LEN
	dataVerdict    = 0xffffff00
	fibAddressType = 3  // NFT_FIB_RESULT_ADDRTYPE
	register9      = 9  // NFT_REG32_01: the second word of register 1
	natPorts       = 2  // NF_NAT_RANGE_PROTO_SPECIFIED
	localAddress   = 2  // RTN_LOCAL
	ifNameLen      = 16 // IFNAMSIZ
	maxComment     = 128
)

// rule is a rule that is being compiled. Its anonymous sets are created before it.
type rule struct {
	*batch
	w    words
	sets []*set
	// family is the protocol family if the rule has already checked it: NFPROTO_IPV4, NFPROTO_IPV6, or 0.
	family  uint8
	comment string
}

// addRule writes a rule: before the one with a handle, or at the end of the chain.
func (b *batch) addRule(chain, line string, before uint64) error {
	// The expressions go to a batch of their own, because the sets that they need come first.
	r := rule{batch: &batch{table: b.table, lastSetID: b.lastSetID, fresh: b.fresh}, w: words{line}}
	if err := r.compile(); err != nil {
		return fmt.Errorf("%w, in the rule %q", err, line)
	}
	for _, s := range r.sets {
		b.addSet(s)
	}
	flags := uint16(unix.NLM_F_CREATE)
	if before == 0 {
		flags |= unix.NLM_F_APPEND
	}
	b.begin(unix.NFT_MSG_NEWRULE, flags)
	b.text(unix.NFTA_RULE_TABLE, b.table)
	b.text(unix.NFTA_RULE_CHAIN, chain)
	if before != 0 {
		b.u64(unix.NFTA_RULE_POSITION, before)
	}
	list := b.open(unix.NFTA_RULE_EXPRESSIONS)
	b.out = append(b.out, r.out...)
	b.close(list)
	if r.comment != "" {
		b.bytes(unix.NFTA_RULE_USERDATA, append([]byte{0, byte(len(r.comment) + 1)}, r.comment+"\x00"...))
	}
	b.end()
	if r.overlong || b.overlong {
		return fmt.Errorf("%w: a rule of %d bytes", errForeign, len(line))
	}
	return nil
}

// compile writes the same expressions as nft.
func (r *rule) compile() error {
	for word := r.w.next(); word != ""; word = r.w.next() {
		if err := r.phrase(word); err != nil {
			return err
		}
	}
	return nil
}

func (r *rule) phrase(word string) error {
	switch word {
	case "ip", "ip6":
		return r.address(word)
	case "tcp", "udp":
		r.loadMeta(unix.NFT_META_L4PROTO)
		r.compare(unix.NFT_CMP_EQ, []byte{protocols[word]})
		return r.port(headers[word])
	case "th":
		return r.port(headerAny)
	case "meta":
		return r.meta()
	case "ct":
		return r.conntrack()
	case "iifname":
		return r.link(unix.NFT_META_IIFNAME)
	case "oifname":
		return r.link(unix.NFT_META_OIFNAME)
	case "icmpv6":
		return r.icmpv6()
	case "fib":
		return r.local()
	case "limit":
		return r.limit()
	case "log":
		return r.log()
	case "snat":
		return r.translate(unix.NFT_NAT_SNAT)
	case "dnat":
		return r.translate(unix.NFT_NAT_DNAT)
	case "masquerade":
		r.expression("masq", func() {})
	case "counter":
		r.expression("counter", func() {
			r.u64(unix.NFTA_COUNTER_BYTES, 0)
			r.u64(unix.NFTA_COUNTER_PACKETS, 0)
		})
	case "accept":
		r.decide(verdictAccept, "")
	case "drop":
		r.decide(verdictDrop, "")
	case "reject":
		r.reject()
	case "jump", "goto":
		to := r.w.next()
		if !isName(to) {
			return foreign(to)
		}
		r.decide(map[string]int32{"jump": unix.NFT_JUMP, "goto": unix.NFT_GOTO}[word], to)
	case "comment":
		text, err := quoted(r.w.next())
		if err != nil || len(text) >= maxComment {
			return foreign(text)
		}
		r.comment = text
	default:
		return foreign(word)
	}
	return nil
}

func (r *rule) decide(code int32, chain string) {
	r.expression("immediate", func() {
		r.u32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		r.verdict(unix.NFTA_IMMEDIATE_DATA, code, chain)
	})
}

func (r *rule) immediate(register uint32, value []byte) {
	r.expression("immediate", func() {
		r.u32(unix.NFTA_IMMEDIATE_DREG, register)
		r.data(unix.NFTA_IMMEDIATE_DATA, value)
	})
}

func (r *rule) loadMeta(key uint32) {
	r.expression("meta", func() {
		r.u32(unix.NFTA_META_KEY, key)
		r.u32(unix.NFTA_META_DREG, unix.NFT_REG_1)
	})
}

func (r *rule) load(base, offset, length, register uint32) {
	r.expression("payload", func() {
		r.u32(unix.NFTA_PAYLOAD_DREG, register)
		r.u32(unix.NFTA_PAYLOAD_BASE, base)
		r.u32(unix.NFTA_PAYLOAD_OFFSET, offset)
		r.u32(unix.NFTA_PAYLOAD_LEN, length)
	})
}

func (r *rule) compare(op uint32, value []byte) {
	r.expression("cmp", func() {
		r.u32(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		r.u32(unix.NFTA_CMP_OP, op)
		r.data(unix.NFTA_CMP_DATA, value)
	})
}

// between compares register 1 with one value, or with both ends of a range.
func (r *rule) between(first, last []byte) {
	if string(first) == string(last) {
		r.compare(unix.NFT_CMP_EQ, first)
		return
	}
	r.compare(unix.NFT_CMP_GTE, first)
	r.compare(unix.NFT_CMP_LTE, last)
}

func (r *rule) mask(mask []byte) {
	r.expression("bitwise", func() {
		r.u32(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1)
		r.u32(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1)
		r.u32(unix.NFTA_BITWISE_LEN, uint32(len(mask)))
		r.data(unix.NFTA_BITWISE_MASK, mask)
		r.data(unix.NFTA_BITWISE_XOR, make([]byte, len(mask)))
	})
}

// lookup searches a set for the value of a register. From a map it loads the result into the register answer.
func (r *rule) lookup(name string, id, register uint32, answer *uint32) {
	r.expression("lookup", func() {
		r.u32(unix.NFTA_LOOKUP_SREG, register)
		if answer != nil {
			r.u32(unix.NFTA_LOOKUP_DREG, *answer)
		}
		r.text(unix.NFTA_LOOKUP_SET, name)
		if id != 0 {
			r.u32(unix.NFTA_LOOKUP_SET_ID, id)
		}
	})
}

// among searches an anonymous set for the value of register 1. of describes the origin of the value, for nft's listings.
func (r *rule) among(k kind, of []byte, elements []element, flags uint32) {
	s := anonymous(k, elements, flags)
	if flags&unix.NFT_SET_INTERVAL != 0 {
		s.userdata = append(s.userdata, noteOf(noteMerged, 1)...)
	}
	s.userdata = append(s.userdata, note(noteKey, of...)...)
	r.with(s)
	r.lookup(s.name, s.id, unix.NFT_REG_1, nil)
}

// with adds an anonymous set to the rule.
func (r *rule) with(s *set) {
	r.lastSetID++
	s.id = r.lastSetID
	if r.fresh {
		// To find a free name, the kernel would parse the names of all sets before.
		s.name = fmt.Sprintf("__set%d", s.id)
	}
	r.sets = append(r.sets, s)
}

// anonymous returns a constant set that belongs to a rule.
func anonymous(k kind, elements []element, flags uint32) *set {
	size := len(elements)
	if size > 0 && elements[size-1].userdata != nil {
		size++ // nft also counts the missing end of an open range
	}
	return &set{
		name: "__set%d", flags: unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT | flags, keyType: k.number, keyLen: k.length,
		size: size, elements: elements, userdata: noteOf(noteKeyOrder, k.order),
	}
}

// address compiles "ip saddr …".
func (r *rule) address(keyword string) error {
	family, k, offset, header, field := uint8(unix.NFPROTO_IPV4), kindIPv4, uint32(12), uint32(headerIPv4), uint32(11)
	if keyword == "ip6" {
		family, k, offset, header, field = unix.NFPROTO_IPV6, kindIPv6, 8, headerIPv6, 8
	}
	switch side := r.w.next(); side {
	case "saddr":
	case "daddr":
		offset += k.length
		field++
	default:
		return foreign(side)
	}
	r.only(family)
	items, several, err := r.w.list()
	if err != nil {
		return err
	}
	if name, ok := strings.CutPrefix(items[0], "@"); ok && !several {
		if !isName(name) {
			return foreign(name)
		}
		r.load(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, k.length, unix.NFT_REG_1)
		r.lookup(name, 0, unix.NFT_REG_1, nil)
		return nil
	}
	spans, err := spans(items, k)
	if err != nil {
		return err
	}
	if !several {
		r.span(spans[0], offset)
		return nil
	}
	r.load(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, k.length, unix.NFT_REG_1)
	elements, flags := intervals(spans)
	r.among(k, ofField(header, field), elements, flags)
	return nil
}

// only checks for a family, unless the rule has already done so.
func (r *rule) only(family uint8) {
	if r.family != family {
		r.loadMeta(unix.NFT_META_NFPROTO)
		r.compare(unix.NFT_CMP_EQ, []byte{family})
	}
	r.family = family
}

// span checks whether an address is within a span.
func (r *rule) span(s span, offset uint32) {
	length := len(s.first)
	switch {
	case s.bits > 0 && s.bits%8 == 0: // only the bytes of the prefix are compared
		r.load(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, uint32(s.bits/8), unix.NFT_REG_1)
		r.compare(unix.NFT_CMP_EQ, s.first[:s.bits/8])
		return
	case s.bits >= 0:
		r.load(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, uint32(length), unix.NFT_REG_1)
		r.mask(net.CIDRMask(s.bits, 8*length))
		r.compare(unix.NFT_CMP_EQ, s.first)
		return
	}
	r.load(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, uint32(length), unix.NFT_REG_1)
	r.between(s.first, s.last)
}

var headers = map[string]uint32{"tcp": headerTCP, "udp": headerUDP}

// destinationPort is nft's number of the field, in all headers with ports.
const destinationPort = 2

// port compiles "dport …" of a header.
func (r *rule) port(header uint32) error {
	if err := r.w.expect("dport"); err != nil {
		return err
	}
	items, several, err := r.w.list()
	if err != nil {
		return err
	}
	var list []span
	for _, item := range items {
		s, err := portSpan(item)
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	r.load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, unix.NFT_REG_1)
	if !several {
		r.between(list[0].first, list[0].last)
		return nil
	}
	elements, flags := intervals(list)
	r.among(kindPort, ofField(header, destinationPort), elements, flags)
	return nil
}

var protocols = map[string]uint8{"icmp": 1, "tcp": 6, "udp": 17, "ipv6-icmp": 58, "112": 112}

func (r *rule) meta() error {
	switch key := r.w.next(); key {
	case "nfproto":
		family := r.w.next()
		switch family {
		case "ipv4":
			r.only(unix.NFPROTO_IPV4)
		case "ipv6":
			r.only(unix.NFPROTO_IPV6)
		default:
			return foreign(family)
		}
		return nil
	case "mark":
		return r.set(r.mark)
	case "l4proto":
		if r.w.peek() == "." {
			return r.service()
		}
		return r.protocol()
	default:
		return foreign(key)
	}
}

func (r *rule) mark() {
	r.expression("meta", func() {
		r.u32(unix.NFTA_META_KEY, unix.NFT_META_MARK)
		r.u32(unix.NFTA_META_SREG, unix.NFT_REG_1)
	})
}

// set compiles "set N"; put stores the number.
func (r *rule) set(put func()) error {
	if err := r.w.expect("set"); err != nil {
		return err
	}
	n, err := number(r.w.next(), 32)
	if err != nil {
		return err
	}
	r.immediate(unix.NFT_REG_1, native(uint32(n)))
	put()
	return nil
}

func (r *rule) protocol() error {
	items, several, err := r.w.list()
	if err != nil {
		return err
	}
	var elements []element
	for _, item := range items {
		p, known := protocols[item]
		if !known {
			return foreign(item)
		}
		elements = append(elements, element{key: []byte{p}})
	}
	r.loadMeta(unix.NFT_META_L4PROTO)
	if several {
		r.among(kindProto, ofMeta(unix.NFT_META_L4PROTO), elements, 0)
		return nil
	}
	r.compare(unix.NFT_CMP_EQ, elements[0].key)
	return nil
}

// service compiles ". th dport { tcp . 22, … }": protocols, each with its ports.
func (r *rule) service() error {
	if err := r.w.expect(".", "th", "dport"); err != nil {
		return err
	}
	items, several, err := r.w.list()
	if err != nil || !several {
		return errors.Join(err, foreign(r.w.rest))
	}
	var elements []element
	ranged := false
	for _, item := range items {
		name, rest, ok := strings.Cut(item, " . ")
		p, known := protocols[name]
		s, err := portSpan(rest)
		if !ok || !known || err != nil {
			return foreign(item)
		}
		// Each field is padded to whole words.
		key := func(port []byte) []byte { return []byte{p, 0, 0, 0, port[0], port[1], 0, 0} }
		elements = append(elements, element{key: key(s.first), end: key(s.last)})
		ranged = ranged || string(s.first) != string(s.last)
	}
	set := anonymous(kindService, elements, 0)
	r.loadMeta(unix.NFT_META_L4PROTO)
	if ranged {
		// nft does this although the protocol has only one byte.
		r.expression("byteorder", func() {
			r.u32(unix.NFTA_BYTEORDER_SREG, unix.NFT_REG_1)
			r.u32(unix.NFTA_BYTEORDER_DREG, unix.NFT_REG_1)
			r.u32(unix.NFTA_BYTEORDER_OP, unix.NFT_BYTEORDER_HTON)
			r.u32(unix.NFTA_BYTEORDER_LEN, 1)
			r.u32(unix.NFTA_BYTEORDER_SIZE, 2)
		})
		set.flags |= unix.NFT_SET_INTERVAL | setConcat
		set.fields = []uint32{1, 2}
		set.userdata = slices.Concat(set.userdata, noteOf(noteMerged, 1), note(noteKey, slices.Concat(noteOf(0, asConcat), note(1))...))
	} else {
		fields := slices.Concat(note(0, ofMeta(unix.NFT_META_L4PROTO)...), note(1, ofField(headerAny, destinationPort)...))
		set.userdata = slices.Concat(set.userdata, note(noteKey, slices.Concat(noteOf(0, asConcat), note(1, fields...))...))
		for i := range elements {
			elements[i].end = nil
		}
	}
	r.load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, register9)
	r.with(set)
	r.lookup(set.name, set.id, unix.NFT_REG_1, nil)
	return nil
}

// states are the bits of "ct state".
var states = map[string]uint32{"established,related": 6, "new": 8}

func (r *rule) conntrack() error {
	load := func(key uint32) {
		r.expression("ct", func() {
			r.u32(unix.NFTA_CT_KEY, key)
			r.u32(unix.NFTA_CT_DREG, unix.NFT_REG_1)
		})
	}
	switch key := r.w.next(); key {
	case "state":
		which := r.w.next()
		if r.w.peek() == "," {
			which += r.w.next() + r.w.next()
		}
		bits, known := states[which]
		if !known {
			return foreign(which)
		}
		load(unix.NFT_CT_STATE)
		r.mask(native(bits))
		r.compare(unix.NFT_CMP_NEQ, native(0))
	case "status":
		load(unix.NFT_CT_STATUS)
		r.mask(native(1 << 5)) // IPS_DST_NAT
		r.compare(unix.NFT_CMP_NEQ, native(0))
		return r.w.expect("dnat")
	case "direction":
		load(unix.NFT_CT_DIRECTION)
		r.compare(unix.NFT_CMP_EQ, []byte{1})
		return r.w.expect("reply")
	case "mark":
		if r.w.peek() == "set" {
			return r.set(func() {
				r.expression("ct", func() {
					r.u32(unix.NFTA_CT_KEY, unix.NFT_CT_MARK)
					r.u32(unix.NFTA_CT_SREG, unix.NFT_REG_1)
				})
			})
		}
		n, err := number(r.w.next(), 32)
		if err != nil {
			return err
		}
		load(unix.NFT_CT_MARK)
		r.compare(unix.NFT_CMP_EQ, native(uint32(n)))
	default:
		return foreign(key)
	}
	return nil
}

// ifName returns an interface's name in the form that the kernel compares.
func ifName(word string) ([]byte, error) {
	name, err := quoted(word)
	if err != nil {
		return nil, err
	}
	if _, err := value.Parse[value.IfName](name); err != nil || len(name) >= ifNameLen {
		return nil, foreign(word)
	}
	return append([]byte(name), make([]byte, ifNameLen-len(name))...), nil
}

// link compiles what follows iifname and oifname.
func (r *rule) link(key uint32) error {
	r.loadMeta(key)
	if r.w.peek() == "vmap" {
		return r.vmap()
	}
	items, several, err := r.w.list()
	if err != nil {
		return err
	}
	var elements []element
	for _, item := range items {
		name, err := ifName(item)
		if err != nil {
			return err
		}
		elements = append(elements, element{key: name})
	}
	if several {
		r.among(kindIfName, ofMeta(key), elements, 0)
		return nil
	}
	r.compare(unix.NFT_CMP_EQ, elements[0].key)
	return nil
}

// vmap compiles `vmap { "lan0" : goto chain, … }`.
func (r *rule) vmap() error {
	r.w.next()
	items, several, err := r.w.list()
	if err != nil || !several {
		return errors.Join(err, foreign(r.w.rest))
	}
	s := anonymous(kindIfName, nil, unix.NFT_SET_MAP)
	s.name, s.dataType, s.size = "__map%d", dataVerdict, len(items)
	verdicts := slices.Concat(noteOf(0, asVerdict), note(1))
	s.userdata = slices.Concat(s.userdata, noteOf(noteDataOrder, orderNone), note(noteData, verdicts...), noteOf(noteDataInterval, 0))
	for _, item := range items {
		link, to, ok := strings.Cut(item, " : goto ")
		name, err := ifName(link)
		if err != nil || !ok || !isName(to) {
			return foreign(item)
		}
		s.elements = append(s.elements, element{key: name, to: to})
	}
	r.with(s)
	verdict := uint32(unix.NFT_REG_VERDICT)
	r.lookup(s.name, s.id, unix.NFT_REG_1, &verdict)
	return nil
}

// icmpTypes are the types that IPv6 does not work without.
var icmpTypes = map[string]uint8{
	"packet-too-big": 2, "nd-router-solicit": 133, "nd-router-advert": 134, "nd-neighbor-solicit": 135, "nd-neighbor-advert": 136,
}

func (r *rule) icmpv6() error {
	if err := r.w.expect("type"); err != nil {
		return err
	}
	items, several, err := r.w.list()
	if err != nil || !several {
		return errors.Join(err, foreign(r.w.rest))
	}
	var elements []element
	for _, item := range items {
		t, known := icmpTypes[item]
		if !known {
			return foreign(item)
		}
		elements = append(elements, element{key: []byte{t}})
	}
	r.only(unix.NFPROTO_IPV6)
	r.loadMeta(unix.NFT_META_L4PROTO)
	r.compare(unix.NFT_CMP_EQ, []byte{protocols["ipv6-icmp"]})
	r.load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1, unix.NFT_REG_1)
	r.among(kindICMPv6, ofField(headerICMPv6, 1), elements, 0)
	return nil
}

func (r *rule) local() error {
	r.expression("fib", func() {
		r.u32(unix.NFTA_FIB_FLAGS, unix.NFTA_FIB_F_DADDR)
		r.u32(unix.NFTA_FIB_RESULT, fibAddressType)
		r.u32(unix.NFTA_FIB_DREG, unix.NFT_REG_1)
	})
	r.compare(unix.NFT_CMP_EQ, native(localAddress))
	return r.w.expect("daddr", "type", "local")
}

func (r *rule) limit() error {
	if err := r.w.expect("rate", "10/second", "burst", "5", "packets"); err != nil {
		return err
	}
	r.expression("limit", func() {
		r.u64(unix.NFTA_LIMIT_RATE, 10)
		r.u64(unix.NFTA_LIMIT_UNIT, 1)
		r.u32(unix.NFTA_LIMIT_BURST, 5)
		r.u32(unix.NFTA_LIMIT_TYPE, unix.NFT_LIMIT_PKTS)
		r.u32(unix.NFTA_LIMIT_FLAGS, 0)
	})
	return nil
}

func (r *rule) log() error {
	if err := r.w.expect("prefix"); err != nil {
		return err
	}
	prefix, err := quoted(r.w.next())
	if err != nil || len(prefix) >= 128 {
		return foreign(prefix)
	}
	r.expression("log", func() {
		r.text(unix.NFTA_LOG_PREFIX, prefix)
		r.bytes(unix.NFTA_LOG_GROUP, []byte{0, 0})
	})
	return r.w.expect("group", "0")
}

// reject answers with port unreachable, of the packet's family if the rule knows it.
func (r *rule) reject() {
	how, code := uint32(unix.NFT_REJECT_ICMPX_UNREACH), uint8(unix.NFT_REJECT_ICMPX_PORT_UNREACH)
	switch r.family {
	case unix.NFPROTO_IPV4:
		how, code = unix.NFT_REJECT_ICMP_UNREACH, 3
	case unix.NFPROTO_IPV6:
		how, code = unix.NFT_REJECT_ICMP_UNREACH, 4
	}
	r.expression("reject", func() {
		r.u32(unix.NFTA_REJECT_TYPE, how)
		r.u8(unix.NFTA_REJECT_ICMP_CODE, code)
	})
}

// translate compiles what follows snat and dnat: a family, an address, and possibly ports.
func (r *rule) translate(how uint32) error {
	family := r.w.next()
	if err := r.w.expect("to"); err != nil {
		return err
	}
	target := r.w.next()
	mapped := r.w.peek() == ":"
	address, rest := target, ""
	switch i := strings.LastIndexByte(target, ']'); {
	case mapped:
	case i > 0 && target[0] == '[':
		address, rest = target[1:i], target[i+1:]
	case family == "ip":
		if at := strings.IndexByte(target, ':'); at >= 0 {
			address, rest = target[:at], target[at:]
		}
	}
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Zone() != "" || (family != "ip" || !ip.Is4()) && (family != "ip6" || !ip.Is6()) || rest != "" && rest[0] != ':' {
		return foreign(target)
	}
	r.immediate(unix.NFT_REG_1, ip.AsSlice())
	last := false
	switch {
	case mapped:
		if err := r.portMap(); err != nil {
			return err
		}
	case rest != "":
		s, err := portSpan(rest[1:])
		if err != nil {
			return err
		}
		r.immediate(unix.NFT_REG_2, s.first)
		if last = string(s.first) != string(s.last); last {
			r.immediate(unix.NFT_REG_3, s.last)
		}
	}
	r.expression("nat", func() {
		r.u32(unix.NFTA_NAT_TYPE, how)
		r.u32(unix.NFTA_NAT_FAMILY, map[string]uint32{"ip": unix.NFPROTO_IPV4, "ip6": unix.NFPROTO_IPV6}[family])
		r.u32(unix.NFTA_NAT_REG_ADDR_MIN, unix.NFT_REG_1)
		if mapped || rest != "" {
			r.u32(unix.NFTA_NAT_REG_PROTO_MIN, unix.NFT_REG_2)
			if last {
				r.u32(unix.NFTA_NAT_REG_PROTO_MAX, unix.NFT_REG_3)
			}
			r.u32(unix.NFTA_NAT_FLAGS, natPorts)
		}
	})
	return nil
}

// portMap compiles ": th dport map { 80 : 8080, … }".
func (r *rule) portMap() error {
	if err := r.w.expect(":", "th", "dport", "map"); err != nil {
		return err
	}
	items, several, err := r.w.list()
	if err != nil || !several {
		return errors.Join(err, foreign(r.w.rest))
	}
	s := anonymous(kindPort, nil, unix.NFT_SET_MAP)
	s.name, s.dataType, s.dataLen, s.size = "__map%d", kindPort.number, kindPort.length, len(items)
	s.userdata = slices.Concat(s.userdata, noteOf(noteDataOrder, orderNetwork), noteOf(noteDataInterval, 0))
	for _, item := range items {
		from, to, ok := strings.Cut(item, " : ")
		a, err1 := number(from, 16)
		b, err2 := number(to, 16)
		if !ok || err1 != nil || err2 != nil {
			return foreign(item)
		}
		s.elements = append(s.elements, element{
			key: binary.BigEndian.AppendUint16(nil, uint16(a)), data: binary.BigEndian.AppendUint16(nil, uint16(b)),
		})
	}
	r.with(s)
	r.load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, unix.NFT_REG_2)
	answer := uint32(unix.NFT_REG_2)
	r.lookup(s.name, s.id, unix.NFT_REG_2, &answer)
	return nil
}
