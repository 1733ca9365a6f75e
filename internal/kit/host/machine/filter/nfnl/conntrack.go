package nfnl

import (
	"context"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

// From <linux/netfilter/nfnetlink_conntrack.h> and <linux/netfilter/nf_conntrack_common.h>.
const (
	subsysConntrack  = 1
	conntrackGet     = subsysConntrack<<8 | 1
	conntrackDelete  = subsysConntrack<<8 | 2
	ctaOriginal      = 1
	ctaReply         = 2
	ctaStatus        = 3
	ctaProtoInfo     = 4
	ctaTimeout       = 7
	ctaCountOriginal = 9
	ctaCountReply    = 10
	ctaID            = 12
	ctaZone          = 18
	ctaTupleIP       = 1
	ctaTupleProto    = 2
	ctaIPv4Source    = 1
	ctaIPv4Dest      = 2
	ctaIPv6Source    = 3
	ctaIPv6Dest      = 4
	ctaProtoNumber   = 1
	ctaSourcePort    = 2
	ctaDestPort      = 3
	ctaICMPID        = 4
	ctaICMPType      = 5
	ctaICMPCode      = 6
	ctaICMPv6ID      = 7
	ctaICMPv6Type    = 8
	ctaICMPv6Code    = 9
	ctaInfoTCP       = 1
	ctaTCPState      = 1
	ctaPackets       = 1
	ctaBytes         = 2
	statusReplied    = 1 << 1
	statusAssured    = 1 << 2
	statusSourceNAT  = 1 << 4
	statusDestNAT    = 1 << 5
)

// Connections calls each with every connection that the kernel tracks. each must not keep the connection.
func (s *Socket) Connections(ctx context.Context, each func(*host.Connection)) error {
	return s.use(ctx, func(c *conn) error {
		var connection host.Connection
		c.begin(conntrackGet, dumpFlags, unix.AF_UNSPEC, 0)
		return c.exchange(ctx, func(_ uint16, attrs []byte) {
			connection = host.Connection{}
			readConnection(attrs, &connection)
			each(&connection)
		})
	})
}

// EndConnection removes a connection. It fails with ENOENT if there is none with this key.
func (s *Socket) EndConnection(ctx context.Context, k host.ConnectionKey) error {
	return s.use(ctx, func(c *conn) error {
		family := uint8(unix.AF_INET)
		if k.Source.Is6() {
			family = unix.AF_INET6
		}
		c.begin(conntrackDelete, requestFlags, family, 0)
		c.out = appendAttr(c.out, ctaOriginal|unix.NLA_F_NESTED, tuple(k))
		if k.Zone != 0 {
			c.out = appendAttr(c.out, ctaZone, binary.BigEndian.AppendUint16(nil, k.Zone))
		}
		c.out = appendAttr(c.out, ctaID, binary.BigEndian.AppendUint32(nil, k.ID))
		return c.exchange(ctx, nil)
	})
}

// tuple encodes the addresses and ports by which the kernel finds a connection.
func tuple(k host.ConnectionKey) []byte {
	source, destination := uint16(ctaIPv4Source), uint16(ctaIPv4Dest)
	if k.Source.Is6() {
		source, destination = ctaIPv6Source, ctaIPv6Dest
	}
	ip := appendAttr(nil, source, k.Source.AsSlice())
	ip = appendAttr(ip, destination, k.Destination.AsSlice())
	port := func(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
	proto := appendAttr(nil, ctaProtoNumber, []byte{k.Protocol})
	switch k.Protocol {
	case unix.IPPROTO_ICMP:
		proto = appendAttr(proto, ctaICMPID, port(k.SourcePort))
		proto = appendAttr(proto, ctaICMPType, []byte{k.ICMPType})
		proto = appendAttr(proto, ctaICMPCode, []byte{k.ICMPCode})
	case unix.IPPROTO_ICMPV6:
		proto = appendAttr(proto, ctaICMPv6ID, port(k.SourcePort))
		proto = appendAttr(proto, ctaICMPv6Type, []byte{k.ICMPType})
		proto = appendAttr(proto, ctaICMPv6Code, []byte{k.ICMPCode})
	default:
		proto = appendAttr(proto, ctaSourcePort, port(k.SourcePort))
		proto = appendAttr(proto, ctaDestPort, port(k.DestinationPort))
	}
	return appendAttr(appendAttr(nil, ctaTupleIP|unix.NLA_F_NESTED, ip), ctaTupleProto|unix.NLA_F_NESTED, proto)
}

func readConnection(attrs []byte, c *host.Connection) {
	for kind, data := range attributes(attrs) {
		switch kind {
		case ctaOriginal:
			readTuple(data, &c.Flow, &c.ConnectionKey)
		case ctaReply:
			readTuple(data, &c.Reply, nil)
		case ctaStatus:
			status := be32(data)
			c.Replied, c.Assured = status&statusReplied != 0, status&statusAssured != 0
			c.SourceNAT, c.DestinationNAT = status&statusSourceNAT != 0, status&statusDestNAT != 0
		case ctaProtoInfo:
			for kind, info := range attributes(data) {
				if kind == ctaInfoTCP {
					c.State = tcpState(info)
				}
			}
		case ctaTimeout:
			c.Seconds = be32(data)
		case ctaCountOriginal:
			c.SentPackets, c.SentBytes = readCounters(data)
		case ctaCountReply:
			c.ReceivedPackets, c.ReceivedBytes = readCounters(data)
		case ctaID:
			c.ID = be32(data)
		case ctaZone:
			c.Zone = be16(data)
		}
	}
}

// tcpState is not inline because a third nested loop over attributes would allocate for each connection.
func tcpState(info []byte) (state host.ConnectionState) {
	for kind, data := range attributes(info) {
		if kind == ctaTCPState && len(data) > 0 {
			state = host.ConnectionState(data[0])
		}
	}
	return state
}

func readTuple(b []byte, f *host.Flow, key *host.ConnectionKey) {
	for kind, data := range attributes(b) {
		switch kind {
		case ctaTupleIP:
			for kind, address := range attributes(data) {
				switch kind {
				case ctaIPv4Source, ctaIPv6Source:
					f.Source, _ = netip.AddrFromSlice(address)
				case ctaIPv4Dest, ctaIPv6Dest:
					f.Destination, _ = netip.AddrFromSlice(address)
				}
			}
		case ctaTupleProto:
			for kind, value := range attributes(data) {
				switch {
				case kind == ctaSourcePort, kind == ctaICMPID, kind == ctaICMPv6ID:
					f.SourcePort = be16(value)
				case kind == ctaDestPort:
					f.DestinationPort = be16(value)
				case key == nil || len(value) == 0:
				case kind == ctaProtoNumber:
					key.Protocol = value[0]
				case kind == ctaICMPType, kind == ctaICMPv6Type:
					key.ICMPType = value[0]
				case kind == ctaICMPCode, kind == ctaICMPv6Code:
					key.ICMPCode = value[0]
				}
			}
		}
	}
}

func readCounters(b []byte) (packets, bytes uint64) {
	for kind, data := range attributes(b) {
		switch kind {
		case ctaPackets:
			packets = be64(data)
		case ctaBytes:
			bytes = be64(data)
		}
	}
	return packets, bytes
}

func be16(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}
