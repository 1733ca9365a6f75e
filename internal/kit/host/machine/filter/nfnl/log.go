package nfnl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

// The part of linux/netfilter/nfnetlink_log.h that is used here.
const (
	logPacket = 0 // NFULNL_MSG_PACKET
	logConfig = 1 // NFULNL_MSG_CONFIG

	cfgCommand   = 1
	cfgMode      = 2
	cfgBuffer    = 3
	cfgTimeout   = 4
	cfgThreshold = 5
	cfgFlags     = 6

	commandBind    = 1
	copyPacket     = 2
	flagNumber     = 1 // number the packets, so that a loss shows as a gap
	logTimestamp   = 3
	logIndexIn     = 4
	logIndexOut    = 5
	logPayload     = 9
	logPrefix      = 10
	logNumber      = 12
	logBuffer      = 128 << 10 // the kernel hands packets over in datagrams of up to this size
	logThreshold   = 400       // packets after which the kernel sends a datagram
	logTimeout     = 10        // hundredths of a second after which the kernel sends a datagram
	logCopy        = 96        // bytes of a packet: an IPv6 header, some extension headers, the ports
	logSocket      = 16 << 20  // bytes of the receive buffer
	knownPrefixes  = 1 << 16   // prefixes that are cached; more than any table has
	batchedPackets = 1024      // room for the packets of a datagram; more cost an allocation
)

// FollowLog reads the packets that rules log to a group, until the context ends or reading fails. The sink gets an empty batch once the
// group is bound, and then a batch for each datagram, which it must not keep. lost is the number of packets that the kernel dropped before
// the batch because they were not read fast enough.
func FollowLog(ctx context.Context, group uint16, sink func(batch []host.LoggedPacket, lost uint64)) error {
	c, err := dial(logBuffer + messageLen)
	if err != nil {
		return err
	}
	defer c.file.Close()
	defer c.until(ctx)()
	if err := c.widen(logSocket); err != nil {
		return fmt.Errorf("enlarging the buffer for logged packets: %w", err)
	}
	if err := c.bindLog(ctx, group); err != nil {
		return err
	}
	sink(nil, 0)
	r := logReader{prefixes: map[string]string{}, batch: make([]host.LoggedPacket, 0, batchedPackets)}
	for {
		datagram, err := c.read(ctx)
		switch {
		case errors.Is(err, unix.ENOBUFS): // the gap in the numbers will show how many were lost
			continue
		case err != nil:
			return fmt.Errorf("reading logged packets: %w", err)
		}
		if lost := r.read(datagram, time.Now()); len(r.batch) > 0 || lost > 0 {
			sink(r.batch, lost)
		}
	}
}

// widen enlarges the receive buffer. Without the right to exceed the machine's limit, it does so up to the limit.
func (c *conn) widen(size int) error {
	if c.option(unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) == nil {
		return nil
	}
	return c.option(unix.SOL_SOCKET, unix.SO_RCVBUF, size)
}

func (c *conn) bindLog(ctx context.Context, group uint16) error {
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	c.begin(unix.NFNL_SUBSYS_ULOG<<8|logConfig, requestFlags, unix.AF_UNSPEC, group)
	c.out = appendAttr(c.out, cfgCommand, []byte{commandBind})
	c.out = appendAttr(c.out, cfgMode, append(number(logCopy), copyPacket, 0))
	c.out = appendAttr(c.out, cfgBuffer, number(logBuffer))
	c.out = appendAttr(c.out, cfgTimeout, number(logTimeout))
	c.out = appendAttr(c.out, cfgThreshold, number(logThreshold))
	c.out = appendAttr(c.out, cfgFlags, []byte{0, flagNumber})
	err := c.exchange(ctx, nil)
	if errors.Is(err, unix.EPERM) {
		// The kernel returns EPERM without the capability, and also if another socket has bound the group. Reading the generation takes
		// the same capability.
		if _, denied := c.generation(ctx); denied == nil {
			err = unix.EBUSY
		}
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("another program reads packet log group %d: %w", group, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("reading packet log group %d is not permitted: %w", group, err)
	case err != nil:
		return fmt.Errorf("binding packet log group %d: %w", group, err)
	}
	return nil
}

// logReader turns datagrams into packets.
type logReader struct {
	prefixes map[string]string
	batch    []host.LoggedPacket
	next     uint32 // number of the next packet
}

// read fills the batch from a datagram, and returns how many packets were lost before or within it.
func (r *logReader) read(datagram []byte, now time.Time) (lost uint64) {
	r.batch = r.batch[:0]
	for m := range messages(datagram) {
		if m.kind != unix.NFNL_SUBSYS_ULOG<<8|logPacket || len(m.body) < genMsgLen {
			continue
		}
		if len(r.batch) == cap(r.batch) {
			r.batch = append(r.batch, host.LoggedPacket{})[:len(r.batch)]
		}
		r.batch = r.batch[:len(r.batch)+1]
		number := r.packet(&r.batch[len(r.batch)-1], m.body[genMsgLen:], now)
		lost += uint64(number - r.next) // both wrap at 32 bits
		r.next = number + 1
	}
	return lost
}

// packet fills p, and returns the packet's number.
func (r *logReader) packet(p *host.LoggedPacket, attrs []byte, now time.Time) (number uint32) {
	*p, number = host.LoggedPacket{Time: now}, r.next
	for kind, data := range attributes(attrs) {
		switch kind {
		case logTimestamp:
			if len(data) >= 16 && be64(data) > 0 {
				p.Time = time.Unix(int64(be64(data)), int64(be64(data[8:]))*1000)
			}
		case logIndexIn:
			p.InIndex = be32(data)
		case logIndexOut:
			p.OutIndex = be32(data)
		case logPrefix:
			p.Prefix = r.intern(cString(data))
		case logNumber:
			if len(data) >= 4 {
				number = be32(data)
			}
		case logPayload:
			parse(p, data)
		}
	}
	return number
}

// intern returns a shared string for a prefix: there are few prefixes and many packets.
func (r *logReader) intern(b []byte) string {
	if s, ok := r.prefixes[string(b)]; ok {
		return s
	}
	if len(r.prefixes) >= knownPrefixes {
		clear(r.prefixes)
	}
	s := string(b)
	r.prefixes[s] = s
	return s
}

// parse reads the start of an IP packet. Fields beyond the copied bytes stay zero.
func parse(p *host.LoggedPacket, b []byte) {
	if len(b) == 0 {
		return
	}
	p.Size = len(b)
	switch b[0] >> 4 {
	case 4:
		parse4(p, b)
	case 6:
		parse6(p, b)
	}
}

func parse4(p *host.LoggedPacket, b []byte) {
	const fixed = 20
	if len(b) < fixed {
		return
	}
	if n := int(binary.BigEndian.Uint16(b[2:])); n > 0 {
		p.Size = n
	}
	p.Proto = b[9]
	p.Src, p.Dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	header := int(b[0]&15) * 4
	first := binary.BigEndian.Uint16(b[6:])&0x1fff == 0
	if first && header >= fixed && header <= len(b) {
		ports(p, b[header:])
	}
}

func parse6(p *host.LoggedPacket, b []byte) {
	const fixed = 40
	if len(b) < fixed {
		return
	}
	if n := int(binary.BigEndian.Uint16(b[4:])); n > 0 { // it is zero in a jumbogram
		p.Size = fixed + n
	}
	p.Proto = b[6]
	p.Src, p.Dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	for b = b[fixed:]; ; {
		var n int
		switch p.Proto {
		case unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_DSTOPTS, unix.IPPROTO_MH:
			if len(b) < 8 {
				return
			}
			n = (int(b[1]) + 1) * 8
		case unix.IPPROTO_FRAGMENT:
			if len(b) < 8 {
				return
			}
			n = 8
			if binary.BigEndian.Uint16(b[2:])&^7 != 0 { // not the first fragment: no header follows
				p.Proto = b[0]
				return
			}
		case unix.IPPROTO_AH:
			if len(b) < 8 {
				return
			}
			n = (int(b[1]) + 2) * 4
		default:
			ports(p, b)
			return
		}
		p.Proto = b[0]
		b = b[min(n, len(b)):]
	}
}

// ports reads the ports, which are at the same place in all protocols that have them.
func ports(p *host.LoggedPacket, b []byte) {
	switch p.Proto {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_UDPLITE, unix.IPPROTO_SCTP, unix.IPPROTO_DCCP:
		if len(b) >= 4 {
			p.SrcPort, p.DstPort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		}
	}
}
