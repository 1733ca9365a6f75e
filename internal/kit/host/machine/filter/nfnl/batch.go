package nfnl

import (
	"encoding/binary"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// batch is a transaction that is being written: a sequence of messages, all or none of which the kernel applies.
type batch struct {
	table string
	out   []byte
	// head is the start of the current message.
	head int
	// count is the number of messages.
	count uint32
	// lastSetID is the id of the latest set. Within the transaction, rules refer to anonymous sets by id.
	lastSetID uint32
	// fresh says that the table is new, so that any name is free.
	fresh bool
	// overlong is set if something does not fit into an attribute.
	overlong bool
}

// begin starts a message to the packet filter.
func (b *batch) begin(kind, flags uint16) {
	b.start(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, unix.NFPROTO_INET, 0)
}

func (b *batch) start(kind, flags uint16, family uint8, resource uint16) {
	b.head = len(b.out)
	b.count++
	b.out = append(b.out, make([]byte, messageLen)...)
	m := b.out[b.head:]
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags|unix.NLM_F_REQUEST)
	m[headerLen] = family
	binary.BigEndian.PutUint16(m[headerLen+2:], resource)
}

func (b *batch) end() {
	binary.NativeEndian.PutUint32(b.out[b.head:], uint32(len(b.out)-b.head))
}

// open begins a nested attribute; close ends it.
func (b *batch) open(kind uint16) int {
	at := len(b.out)
	b.out = append(b.out, 0, 0, 0, 0)
	binary.NativeEndian.PutUint16(b.out[at+2:], kind|unix.NLA_F_NESTED)
	return at
}

func (b *batch) close(at int) {
	b.overlong = b.overlong || len(b.out)-at > math.MaxUint16
	binary.NativeEndian.PutUint16(b.out[at:], uint16(len(b.out)-at))
}

func (b *batch) bytes(kind uint16, data []byte) {
	b.out = appendAttr(b.out, kind, data)
}

func (b *batch) text(kind uint16, s string) {
	b.out = binary.NativeEndian.AppendUint16(b.out, uint16(unix.SizeofNlAttr+len(s)+1))
	b.out = binary.NativeEndian.AppendUint16(b.out, kind)
	b.out = append(append(b.out, s...), 0)
	for len(b.out)%4 != 0 {
		b.out = append(b.out, 0)
	}
}

func (b *batch) u8(kind uint16, n uint8) { b.bytes(kind, []byte{n}) }

func (b *batch) u32(kind uint16, n uint32) {
	b.out = binary.NativeEndian.AppendUint16(b.out, unix.SizeofNlAttr+4)
	b.out = binary.NativeEndian.AppendUint16(b.out, kind)
	b.out = binary.BigEndian.AppendUint32(b.out, n)
}

func (b *batch) u64(kind uint16, n uint64) {
	b.out = binary.NativeEndian.AppendUint16(b.out, unix.SizeofNlAttr+8)
	b.out = binary.NativeEndian.AppendUint16(b.out, kind)
	b.out = binary.BigEndian.AppendUint64(b.out, n)
}

// data writes a value in the form of expressions and elements.
func (b *batch) data(kind uint16, value []byte) {
	at := b.open(kind)
	b.bytes(unix.NFTA_DATA_VALUE, value)
	b.close(at)
}

// verdict writes a verdict; chain is the target of a jump or goto.
func (b *batch) verdict(kind uint16, code int32, chain string) {
	at := b.open(kind)
	in := b.open(unix.NFTA_DATA_VERDICT)
	b.u32(unix.NFTA_VERDICT_CODE, uint32(code))
	if chain != "" {
		b.text(unix.NFTA_VERDICT_CHAIN, chain)
	}
	b.close(in)
	b.close(at)
}

func (b *batch) expression(name string, write func()) {
	at := b.open(unix.NFTA_LIST_ELEM)
	b.text(unix.NFTA_EXPR_NAME, name)
	in := b.open(unix.NFTA_EXPR_DATA)
	write()
	b.close(in)
	b.close(at)
}

func newBatch(table string) *batch {
	b := &batch{table: table}
	b.start(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	b.u32(unix.NFNL_BATCH_GENID, 0)
	b.end()
	return b
}

// finish ends the transaction. The last message before the end requests the acknowledgement, because older kernels do not acknowledge the
// end.
func (b *batch) finish() {
	m := b.out[b.head:]
	binary.NativeEndian.PutUint16(m[6:], binary.NativeEndian.Uint16(m[6:])|unix.NLM_F_ACK)
	b.start(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	b.end()
}

// numbered returns the transaction for a generation, with its messages numbered from after+1.
func (b *batch) numbered(after, generation uint32) []byte {
	binary.BigEndian.PutUint32(b.out[messageLen+unix.SizeofNlAttr:], generation)
	for rest := b.out; len(rest) > 0; rest = rest[binary.NativeEndian.Uint32(rest):] {
		after++
		binary.NativeEndian.PutUint32(rest[8:], after)
	}
	return b.out
}

func (b *batch) addTable() {
	b.begin(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE)
	b.text(unix.NFTA_TABLE_NAME, b.table)
	b.u32(unix.NFTA_TABLE_FLAGS, 0)
	b.end()
}

func (b *batch) deleteTable() {
	b.begin(unix.NFT_MSG_DELTABLE, 0)
	b.text(unix.NFTA_TABLE_NAME, b.table)
	b.end()
}

// hook is how the kernel enters a base chain.
type hook struct {
	kind     string
	number   uint32
	priority int32
	policy   int32
}

var hooks = map[string]hook{
	"type filter hook input priority filter; policy drop;":        {"filter", unix.NF_INET_LOCAL_IN, 0, verdictDrop},
	"type filter hook forward priority filter; policy drop;":      {"filter", unix.NF_INET_FORWARD, 0, verdictDrop},
	"type filter hook prerouting priority mangle; policy accept;": {"filter", unix.NF_INET_PRE_ROUTING, -150, verdictAccept},
	"type nat hook prerouting priority dstnat; policy accept;":    {"nat", unix.NF_INET_PRE_ROUTING, -100, verdictAccept},
	"type nat hook postrouting priority srcnat; policy accept;":   {"nat", unix.NF_INET_POST_ROUTING, 100, verdictAccept},
}

func (b *batch) addChain(name, hooked string) error {
	b.begin(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b.text(unix.NFTA_CHAIN_TABLE, b.table)
	b.text(unix.NFTA_CHAIN_NAME, name)
	if hooked != "" {
		h, known := hooks[hooked]
		if !known {
			return fmt.Errorf("chain %s: %w: %s", name, errForeign, hooked)
		}
		at := b.open(unix.NFTA_CHAIN_HOOK)
		b.u32(unix.NFTA_HOOK_HOOKNUM, h.number)
		b.u32(unix.NFTA_HOOK_PRIORITY, uint32(h.priority))
		b.close(at)
		b.text(unix.NFTA_CHAIN_TYPE, h.kind)
		b.u32(unix.NFTA_CHAIN_POLICY, uint32(h.policy))
	}
	b.end()
	return nil
}

func (b *batch) deleteChain(name string) {
	b.begin(unix.NFT_MSG_DELCHAIN, 0)
	b.text(unix.NFTA_CHAIN_TABLE, b.table)
	b.text(unix.NFTA_CHAIN_NAME, name)
	b.end()
}

// deleteRule deletes a rule; if handle is zero, all rules of the chain.
func (b *batch) deleteRule(chain string, handle uint64) {
	b.begin(unix.NFT_MSG_DELRULE, unix.NLM_F_ECHO)
	b.text(unix.NFTA_RULE_TABLE, b.table)
	b.text(unix.NFTA_RULE_CHAIN, chain)
	if handle != 0 {
		b.u64(unix.NFTA_RULE_HANDLE, handle)
	}
	b.end()
}

// set is a set or a map that is to be created.
type set struct {
	name            string
	flags           uint32
	keyType, keyLen uint32
	dataType        uint32
	dataLen         uint32
	size            int // of a constant set
	fields          []uint32
	userdata        []byte
	elements        []element
	id              uint32
}

type element struct {
	key, end []byte // end is set for concatenations of ranges
	flags    uint32
	userdata []byte
	data     []byte
	to       string // the target of a goto
}

func (b *batch) addSet(s *set) {
	b.lastSetID++
	s.id = b.lastSetID
	b.begin(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b.text(unix.NFTA_SET_TABLE, b.table)
	b.text(unix.NFTA_SET_NAME, s.name)
	b.u32(unix.NFTA_SET_FLAGS, s.flags)
	b.u32(unix.NFTA_SET_KEY_TYPE, s.keyType)
	b.u32(unix.NFTA_SET_KEY_LEN, s.keyLen)
	if s.flags&unix.NFT_SET_MAP != 0 {
		b.u32(unix.NFTA_SET_DATA_TYPE, s.dataType)
		b.u32(unix.NFTA_SET_DATA_LEN, s.dataLen)
	}
	b.u32(unix.NFTA_SET_ID, s.id)
	if s.size > 0 {
		at := b.open(unix.NFTA_SET_DESC)
		b.u32(unix.NFTA_SET_DESC_SIZE, uint32(s.size))
		if len(s.fields) > 0 {
			list := b.open(setDescConcat)
			for _, n := range s.fields {
				field := b.open(unix.NFTA_LIST_ELEM)
				b.u32(setFieldLen, n)
				b.close(field)
			}
			b.close(list)
		}
		b.close(at)
	}
	if len(s.userdata) > 0 {
		b.bytes(unix.NFTA_SET_USERDATA, s.userdata)
	}
	b.end()
	b.addElements(s)
}

// elementsAtOnce limits the elements of a message, in bytes: an attribute cannot exceed 64 KiB.
const elementsAtOnce = 32 << 10

func (b *batch) addElements(s *set) { b.elements(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, s) }

func (b *batch) deleteElements(s *set) { b.elements(unix.NFT_MSG_DELSETELEM, 0, s) }

func (b *batch) elements(kind, flags uint16, s *set) {
	for rest := s.elements; len(rest) > 0; {
		b.begin(kind, flags)
		b.text(unix.NFTA_SET_ELEM_LIST_TABLE, b.table)
		b.text(unix.NFTA_SET_ELEM_LIST_SET, s.name)
		if s.id != 0 {
			b.u32(unix.NFTA_SET_ELEM_LIST_SET_ID, s.id)
		}
		list := b.open(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for len(rest) > 0 && len(b.out)-list < elementsAtOnce {
			b.element(&rest[0])
			rest = rest[1:]
		}
		b.close(list)
		b.end()
	}
}

func (b *batch) element(e *element) {
	at := b.open(unix.NFTA_LIST_ELEM)
	if e.flags != 0 {
		b.u32(unix.NFTA_SET_ELEM_FLAGS, e.flags)
	}
	b.data(unix.NFTA_SET_ELEM_KEY, e.key)
	if e.end != nil {
		b.data(elemKeyEnd, e.end)
	}
	switch {
	case e.to != "":
		b.verdict(unix.NFTA_SET_ELEM_DATA, unix.NFT_GOTO, e.to)
	case e.data != nil:
		b.data(unix.NFTA_SET_ELEM_DATA, e.data)
	}
	if e.userdata != nil {
		b.bytes(unix.NFTA_SET_ELEM_USERDATA, e.userdata)
	}
	b.close(at)
}

// flushSet removes all elements of a set.
func (b *batch) flushSet(name string) {
	b.begin(unix.NFT_MSG_DELSETELEM, 0)
	b.text(unix.NFTA_SET_ELEM_LIST_TABLE, b.table)
	b.text(unix.NFTA_SET_ELEM_LIST_SET, name)
	b.end()
}

func (b *batch) deleteSet(name string) {
	b.begin(unix.NFT_MSG_DELSET, 0)
	b.text(unix.NFTA_SET_TABLE, b.table)
	b.text(unix.NFTA_SET_NAME, name)
	b.end()
}
