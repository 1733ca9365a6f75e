package diag

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// Defaults.
const (
	capturePackets = 10_000
	captureBytes   = 10 << 20
	captureSeconds = 30
)

// Capture says which packets to capture, and when to stop.
type Capture struct {
	Interface value.IfName `json:"interface" required:"true" doc:"Network interface of the machine."`
	Protocol  *string      `json:"protocol" enum:"tcp,udp,icmp,icmp6,arp" doc:"Only this protocol; all by default."`
	Host      value.Prefix `json:"host" doc:"Only packets from or to this address or network; all by default."`
	Port      *int         `json:"port" minimum:"1" maximum:"65535" doc:"Only packets from or to this port; all by default."`
	Packets   *int         `json:"packets" minimum:"1" maximum:"1000000" doc:"Maximum number of packets; 10000 by default."`
	Bytes     *int64       `json:"bytes" minimum:"1024" maximum:"104857600" doc:"Maximum size of the file; 10 MiB by default."`
	Seconds   *int         `json:"seconds" minimum:"1" maximum:"300" doc:"Maximum duration in seconds; 30 by default."`
}

// Validate checks the fields against each other.
func (p *Capture) Validate() error {
	var c check.List
	c.That(p.Port == nil || p.Protocol == nil || *p.Protocol == "tcp" || *p.Protocol == "udp", "port", "must be empty, because only tcp and udp have ports")
	if p.Protocol != nil && !p.Host.IsZero() {
		c.That(*p.Protocol != "icmp" || p.Host.Netip().Addr().Is4(), "host", "must be an IPv4 address for icmp. For IPv6 choose icmp6")
		c.That(*p.Protocol != "icmp6" || p.Host.Netip().Addr().Is6(), "host", "must be an IPv6 address for icmp6. For IPv4 choose icmp")
		c.That(*p.Protocol != "arp" || p.Host.Netip().Addr().Is4(), "host", "must be an IPv4 address for arp")
	}
	return c.Err()
}

// or returns the given value, or a default.
func or[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}

func (p *Capture) filter(without netip.AddrPort) host.Capture {
	return host.Capture{
		Interface: p.Interface.String(), Protocol: or(p.Protocol, ""), Host: p.Host.Netip(), Port: uint16(or(p.Port, 0)), Without: without,
		Packets: or(p.Packets, capturePackets), Bytes: or(p.Bytes, captureBytes), Within: time.Duration(or(p.Seconds, captureSeconds)) * time.Second,
	}
}

// pcapType is the media type of a capture.
const pcapType = "application/vnd.tcpdump.pcap"

func (r *Room) mountCapture() {
	httpd.Download(r.Router, http.MethodPost, "/diagnostics/capture", httpd.Write.Here(), tag.Audited("diagnostics.capture", "Capture packets as a pcap file, sent while they pass"), pcapType, r.capture)
}

// capture streams captured packets. Only one runs at a time, because each costs the machine for every passing packet.
func (r *Room) capture(c *httpd.Call, in struct{ Body Capture }) (name string, write func(w io.Writer) error, err error) {
	links, err := r.Host.Links(c)
	if err != nil {
		return "", nil, fault.Wrap(fault.Unavailable, err, "The interfaces of the gateway cannot be listed.")
	}
	p := in.Body
	if !slices.ContainsFunc(links, func(l host.Link) bool { return l.Name == p.Interface.String() }) {
		return "", nil, fault.Field("interface", "Interface %s does not exist.", p.Interface)
	}
	if !r.captures.take() {
		return "", nil, fault.New(fault.Conflict, "Another capture is running. Only one can run at a time.")
	}
	client, _, ok := c.Connection()
	if !ok {
		client = netip.AddrPort{}
	}
	filter := p.filter(client)
	details := map[string]any{"protocol": filter.Protocol, "host": p.Host.String(), "port": filter.Port, "packets": filter.Packets, "bytes": filter.Bytes, "seconds": filter.Within.Seconds()}
	if err := r.Audit.Record(c, "diagnostics.capture", p.Interface.String(), details); err != nil {
		r.captures.give()
		return "", nil, err
	}
	name = fmt.Sprintf("%s-%s.pcap", p.Interface, r.Clock.Now().UTC().Format("20060102-150405"))
	return name, func(w io.Writer) error {
		defer r.captures.give()
		file := packets{to: w, most: filter.Bytes}
		// Packets that no longer fit are cut here, at a packet boundary, not by the machine.
		filter.Bytes = min(filter.Bytes+1<<20, host.CaptureMostBytes)
		ctx, enough := context.WithCancelCause(c)
		defer enough(nil)
		end, err := r.Host.Probe(ctx, host.Probe{Tool: host.ProbeCapture, Capture: filter}, func(output []byte) {
			if file.write(output); file.full || file.failed != nil {
				enough(errEnough)
			}
		})
		switch {
		case file.failed != nil:
			return file.failed
		case file.full, end.Truncated, end.TimedOut:
			return nil
		case err != nil:
			return away("tcpdump", err)
		case end.ExitStatus != 0:
			return fault.New(fault.Unavailable, "The program tcpdump ended with status %d: %s.", end.ExitStatus, end.Stderr)
		}
		return nil
	}, nil
}

var errEnough = errors.New("the capture is as long as it may be")

const (
	pcapHeader       = 24
	pcapPacketHeader = 16
	// pcapPacketMost is longer than any captured packet.
	pcapPacketMost = 1 << 20
)

// packets passes on complete packets of a capture.
type packets struct {
	to      io.Writer
	most    int64
	begun   bool
	pending []byte
	full    bool
	failed  error
}

// write takes a part of a file, which may end anywhere.
func (p *packets) write(b []byte) {
	if p.full || p.failed != nil {
		return
	}
	p.pending = append(p.pending, b...)
	whole := 0
	for {
		rest := p.pending[whole:]
		n := pcapHeader
		if p.begun {
			if len(rest) < pcapPacketHeader {
				break
			}
			n = pcapPacketHeader + int(binary.NativeEndian.Uint32(rest[8:])) // tcpdump writes in the machine's byte order
			if n > pcapPacketMost {
				p.failed = fmt.Errorf("a packet of %d bytes in a capture", n)
				return
			}
		}
		if len(rest) < n {
			break
		}
		if p.begun && p.most < int64(n) {
			p.full = true
			break
		}
		p.begun = true
		p.most -= int64(n)
		whole += n
	}
	if whole > 0 {
		_, p.failed = p.to.Write(p.pending[:whole])
		p.pending = append(p.pending[:0], p.pending[whole:]...)
	}
}
