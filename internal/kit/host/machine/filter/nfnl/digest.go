package nfnl

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Constants that golang.org/x/sys does not have.
const (
	setExpr           = 17
	setExpressions    = 18
	elemKeyEnd        = 10
	elemExpressions   = 11
	objUserdata       = 8
	dynsetExpressions = 10
	flowtableTable    = 1
	flowtableName     = 2
	flowtableHook     = 3
	flowtableFlags    = 7
	objectCounter     = 1
	objectQuota       = 2
	quotaInverted     = 1
)

// Marks that begin the entries of the digest.
const (
	partTable     byte = 't'
	partChain     byte = 'c'
	partRule      byte = 'r'
	partSet       byte = 's'
	partElement   byte = 'e'
	partObject    byte = 'o'
	partFlowtable byte = 'f'
)

// The attributes of each kind of object that are configuration. The rest is the kernel's bookkeeping (handles, use counts) or changes with
// traffic.
var (
	tableConfig = []uint16{unix.NFTA_TABLE_FLAGS, tableUserdata}
	chainConfig = []uint16{
		unix.NFTA_CHAIN_NAME, unix.NFTA_CHAIN_HOOK, unix.NFTA_CHAIN_POLICY, unix.NFTA_CHAIN_TYPE, chainFlags, chainUserdata,
	}
	ruleConfig      = []uint16{unix.NFTA_RULE_EXPRESSIONS, unix.NFTA_RULE_COMPAT, unix.NFTA_RULE_USERDATA}
	flowtableConfig = []uint16{flowtableName, flowtableHook, flowtableFlags}
	setConfig       = []uint16{
		unix.NFTA_SET_FLAGS, unix.NFTA_SET_KEY_TYPE, unix.NFTA_SET_KEY_LEN, unix.NFTA_SET_DATA_TYPE, unix.NFTA_SET_DATA_LEN,
		unix.NFTA_SET_POLICY, unix.NFTA_SET_DESC, unix.NFTA_SET_TIMEOUT, unix.NFTA_SET_GC_INTERVAL, unix.NFTA_SET_USERDATA,
		unix.NFTA_SET_OBJ_TYPE, setExpr, setExpressions,
	}
	elementConfig = []uint16{
		unix.NFTA_SET_ELEM_KEY, elemKeyEnd, unix.NFTA_SET_ELEM_DATA, unix.NFTA_SET_ELEM_FLAGS, unix.NFTA_SET_ELEM_TIMEOUT,
		unix.NFTA_SET_ELEM_USERDATA, unix.NFTA_SET_ELEM_EXPR, elemExpressions, unix.NFTA_SET_ELEM_OBJREF,
	}
)

// Digest returns a fingerprint of a table's configuration: its chains, rules, sets, elements, objects and flowtables. It leaves out what
// changes with traffic: counters, quotas, and the elements of dynamic sets. The digest of a missing table is empty. A change of the table
// during the read may or may not be included: a caller that must know compares the generations before and after.
func (s *Socket) Digest(ctx context.Context, table string) (string, error) {
	d := digester{table: table}
	err := s.use(ctx, func(c *conn) error {
		d.conn = c
		_, err := c.settled(ctx, table, func() error { return d.read(ctx) })
		return err
	})
	if err != nil || !d.present {
		return "", err
	}
	return hex.EncodeToString(d.sum.Sum(nil)), nil
}

type digester struct {
	*conn
	table   string
	present bool
	sum     hash.Hash
	buf     []byte
	// inline are the digests of anonymous sets. They identify a set in a rule, because the kernel's names for such sets are numbers in the
	// order of creation.
	inline map[string][]byte
}

// separate returns the digest of what add adds, and leaves d.sum alone.
func (d *digester) separate(add func() error) ([]byte, error) {
	whole := d.sum
	d.sum = sha256.New()
	err := add()
	sum := d.sum.Sum(nil)
	d.sum = whole
	return sum, err
}

func (d *digester) read(ctx context.Context) error {
	d.present, d.sum, d.inline = false, sha256.New(), map[string][]byte{}
	d.beginTable(unix.NFT_MSG_GETTABLE, requestFlags)
	d.text(unix.NFTA_TABLE_NAME, d.table)
	err := d.exchange(ctx, func(_ uint16, attrs []byte) {
		d.present = true
		d.part(partTable, attrs, tableConfig, nil)
	})
	if err != nil {
		return err
	}
	if err := d.sets(ctx); err != nil {
		return err
	}
	if err := d.allChains(ctx); err != nil {
		return err
	}
	if err := d.objects(ctx); err != nil {
		return err
	}
	return d.flowtables(ctx)
}

// allChains adds the chains, sorted because their order has no meaning.
func (d *digester) allChains(ctx context.Context) error {
	heads := map[string][]byte{}
	chains, err := d.chains(ctx, d.table, func(attrs []byte) {
		for kind, data := range attributes(attrs) {
			if kind == unix.NFTA_CHAIN_NAME {
				heads[string(cString(data))] = d.appendConfig([]byte{partChain}, attrs, chainConfig, nil)
			}
		}
	})
	if err != nil {
		return err
	}
	slices.Sort(chains)
	for _, name := range chains {
		d.sum.Write(heads[name])
		err := d.rules(ctx, d.table, name, func(attrs []byte) {
			d.part(partRule, attrs, ruleConfig, func(kind uint16) masking {
				if kind == unix.NFTA_RULE_EXPRESSIONS {
					return expressionList
				}
				return plain
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sets adds the sets, sorted because their order has no meaning.
func (d *digester) sets(ctx context.Context) error {
	type set struct {
		name  string
		flags uint32
		head  []byte
	}
	var sets []set
	d.beginTable(unix.NFT_MSG_GETSET, dumpFlags)
	d.text(unix.NFTA_SET_TABLE, d.table)
	err := d.exchange(ctx, func(_ uint16, attrs []byte) {
		var x set
		own := false
		for kind, data := range attributes(attrs) {
			switch kind {
			case unix.NFTA_SET_TABLE:
				own = string(cString(data)) == d.table
			case unix.NFTA_SET_NAME:
				x.name = string(cString(data))
			case unix.NFTA_SET_FLAGS:
				x.flags = be32(data)
			}
		}
		if !own {
			return
		}
		x.head = d.appendConfig([]byte{partSet}, attrs, setConfig, func(kind uint16) masking {
			switch kind {
			case unix.NFTA_SET_USERDATA: // in an anonymous set it serves nft for listing the set, and differs between nft's versions
				if x.flags&unix.NFT_SET_ANONYMOUS != 0 {
					return omitted
				}
			case setExpr:
				return expression
			case setExpressions:
				return expressionList
			}
			return plain
		})
		sets = append(sets, x)
	})
	if err != nil {
		return err
	}
	slices.SortFunc(sets, func(a, b set) int { return strings.Compare(a.name, b.name) })
	for _, x := range sets {
		sum, err := d.separate(func() error {
			d.sum.Write(x.head)
			// Packets add the elements of a dynamic set.
			if x.flags&unix.NFT_SET_EVAL != 0 {
				return nil
			}
			return d.elements(ctx, x.name)
		})
		if err != nil {
			return err
		}
		if x.flags&unix.NFT_SET_ANONYMOUS != 0 {
			d.inline[x.name] = sum
			continue
		}
		d.sum.Write([]byte(x.name + "\x00"))
		d.sum.Write(sum)
	}
	return nil
}

// elements adds the elements of a set, sorted because the order of a hash differs from boot to boot.
func (d *digester) elements(ctx context.Context, set string) error {
	var sums [][sha256.Size]byte
	d.beginTable(unix.NFT_MSG_GETSETELEM, dumpFlags)
	d.text(unix.NFTA_SET_ELEM_LIST_TABLE, d.table)
	d.text(unix.NFTA_SET_ELEM_LIST_SET, set)
	err := d.exchange(ctx, func(_ uint16, attrs []byte) {
		for kind, list := range attributes(attrs) {
			if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				continue
			}
			for _, element := range attributes(list) {
				d.buf = d.appendConfig(d.buf[:0], element, elementConfig, func(kind uint16) masking {
					switch kind {
					case unix.NFTA_SET_ELEM_EXPR:
						return expression
					case elemExpressions:
						return expressionList
					}
					return plain
				})
				sums = append(sums, sha256.Sum256(d.buf))
			}
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(sums, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	for i := range sums {
		d.sum.Write([]byte{partElement})
		d.sum.Write(sums[i][:])
	}
	return nil
}

func (d *digester) objects(ctx context.Context) error {
	d.beginTable(unix.NFT_MSG_GETOBJ, dumpFlags)
	d.text(unix.NFTA_OBJ_TABLE, d.table)
	return d.exchange(ctx, func(_ uint16, attrs []byte) {
		var table, name, data, userdata []byte
		var objType uint32
		for kind, value := range attributes(attrs) {
			switch kind {
			case unix.NFTA_OBJ_TABLE:
				table = cString(value)
			case unix.NFTA_OBJ_NAME:
				name = value
			case unix.NFTA_OBJ_TYPE:
				objType = be32(value)
			case unix.NFTA_OBJ_DATA:
				data = value
			case objUserdata:
				userdata = value
			}
		}
		if string(table) != d.table {
			return
		}
		d.buf = append(d.buf[:0], partObject)
		d.buf = appendPlain(d.buf, unix.NFTA_OBJ_NAME, name)
		d.buf = binary.BigEndian.AppendUint32(d.buf, objType)
		d.buf = appendPlain(d.buf, objUserdata, userdata)
		switch objType {
		case objectCounter:
		case objectQuota:
			d.buf = appendQuota(d.buf, data)
		default:
			d.buf = appendPlain(d.buf, unix.NFTA_OBJ_DATA, data)
		}
		d.sum.Write(d.buf)
	})
}

func (d *digester) flowtables(ctx context.Context) error {
	d.beginTable(unix.NFT_MSG_GETFLOWTABLE, dumpFlags)
	d.text(flowtableTable, d.table)
	return d.exchange(ctx, func(_ uint16, attrs []byte) {
		for kind, data := range attributes(attrs) {
			if kind == flowtableTable && string(cString(data)) == d.table {
				d.part(partFlowtable, attrs, flowtableConfig, nil)
			}
		}
	})
}

func (d *digester) part(mark byte, attrs []byte, config []uint16, mask func(kind uint16) masking) {
	d.buf = d.appendConfig(append(d.buf[:0], mark), attrs, config, mask)
	d.sum.Write(d.buf)
}

// masking says how an attribute is added.
type masking int

const (
	plain masking = iota
	expression
	expressionList
	omitted
)

// appendConfig appends the attributes that are configuration, in the kernel's order. Each follows its length, so that different
// configurations have different encodings.
func (d *digester) appendConfig(b, attrs []byte, config []uint16, mask func(kind uint16) masking) []byte {
	b = append(b, '(')
	for kind, data := range attributes(attrs) {
		if !slices.Contains(config, kind) {
			continue
		}
		as := plain
		if mask != nil {
			as = mask(kind)
		}
		switch as {
		case omitted:
		case expression:
			b = d.appendExpression(b, data)
		case expressionList:
			b = d.appendExpressions(b, data)
		default:
			b = appendPlain(b, kind, data)
		}
	}
	return append(b, ')')
}

func appendPlain(b []byte, kind uint16, data []byte) []byte {
	b = binary.BigEndian.AppendUint16(append(b, 'a'), kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

func (d *digester) appendExpressions(b, list []byte) []byte {
	b = append(b, '[')
	for _, x := range attributes(list) {
		b = d.appendExpression(b, x)
	}
	return append(b, ']')
}

// appendExpression appends an expression without the parts that change with traffic.
func (d *digester) appendExpression(b, x []byte) []byte {
	name, data := expressionOf(x)
	b = appendPlain(b, unix.NFTA_EXPR_NAME, name)
	switch string(name) {
	case "counter", "last": // they have only state
		return b
	case "quota":
		return appendQuota(b, data)
	case "lookup":
		b = append(b, '(')
		for kind, value := range attributes(data) {
			if sum := d.inline[string(cString(value))]; kind == unix.NFTA_LOOKUP_SET && sum != nil {
				value = sum
			}
			b = appendPlain(b, kind, value)
		}
		return append(b, ')')
	case "dynset": // it has expressions, which it copies to the elements that it adds
		b = append(b, '(')
		for kind, value := range attributes(data) {
			switch kind {
			case unix.NFTA_DYNSET_EXPR:
				b = d.appendExpression(b, value)
			case dynsetExpressions:
				b = d.appendExpressions(b, value)
			default:
				b = appendPlain(b, kind, value)
			}
		}
		return append(b, ')')
	}
	return appendPlain(b, unix.NFTA_EXPR_DATA, data)
}

// appendQuota appends a quota without the used bytes.
func appendQuota(b, data []byte) []byte {
	for kind, value := range attributes(data) {
		switch kind {
		case unix.NFTA_QUOTA_BYTES:
			b = appendPlain(b, kind, value)
		case unix.NFTA_QUOTA_FLAGS:
			b = binary.BigEndian.AppendUint32(b, be32(value)&quotaInverted)
		}
	}
	return b
}
