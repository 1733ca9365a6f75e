package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/value"
)

// Probes runs network diagnostics for an operator. They run without root and without the gateway's own rights.
type Probes interface {
	// Probe runs a tool and streams its output to the sink, which must not keep the slice. When the context ends, the tool and its
	// children are killed.
	Probe(ctx context.Context, p Probe, sink func(output []byte)) (ProbeEnd, error)
}

var probesVerbs = daemon.Verbs{
	"Probe": daemon.Probed,
}

// ProbeSocket serves Probes. It is in the folder of HelperSocket.
var ProbeSocket = filepath.Join(filepath.Dir(HelperSocket), "probe.sock")

type ProbeTool string

const (
	ProbePing       ProbeTool = "ping"
	ProbeTraceroute ProbeTool = "traceroute"
	ProbeDig        ProbeTool = "dig"
	ProbeCurl       ProbeTool = "curl"
	ProbeCapture    ProbeTool = "capture" // tcpdump; its output is in pcap format
)

// Probe is a request to run a tool. Only fields that the tool takes may be set.
type Probe struct {
	Tool    ProbeTool
	Target  string     // a host name or address; a name for dig; a URL for curl
	Type    string     // dig: record type
	Server  netip.Addr // dig: instead of the machine's own resolver
	Capture Capture
}

// Capture selects packets, and limits how many.
type Capture struct {
	Interface string
	Protocol  string       // one of CaptureProtocols; empty for any
	Host      netip.Prefix // either end; invalid for any
	Port      uint16       // either end; zero for any
	// Without is one end of a TCP connection to leave out: the one that carries the capture to the operator.
	Without netip.AddrPort
	Packets int
	Bytes   int64
	Within  time.Duration
}

type ProbeEnd struct {
	ExitStatus int
	Duration   time.Duration
	TimedOut   bool   // killed because it took too long
	Truncated  bool   // killed because it printed too much
	Stderr     string // the end of a capture's error stream
}

const (
	CaptureMostPackets = 1_000_000
	CaptureMostBytes   = 100 << 20
	CaptureMostSeconds = 300
)

// probeOutput limits the output of tools other than captures, in bytes.
const probeOutput = 256 << 10

// ProbeSpec is the command line of a probe, and its limits.
type ProbeSpec struct {
	Argv   []string
	Within time.Duration
	Most   int64 // bytes of output
	Raw    bool
	// Apart keeps the error stream out of the output.
	Apart bool
}

// Spec validates the request and returns how to run it.
func (p Probe) Spec() (ProbeSpec, error) {
	if p.Tool == ProbeCapture {
		return p.Capture.spec()
	}
	if p.Capture != (Capture{}) {
		return ProbeSpec{}, fmt.Errorf("%s takes no capture settings", p.Tool)
	}
	if p.Tool != ProbeDig && (p.Type != "" || p.Server.IsValid()) {
		return ProbeSpec{}, fmt.Errorf("%s takes neither a type nor a server", p.Tool)
	}
	switch p.Tool {
	case ProbePing, ProbeTraceroute:
		target, err := ProbeHost(p.Target)
		if err != nil {
			return ProbeSpec{}, err
		}
		if p.Tool == ProbePing {
			// -w is less than the limit, so that ping can still report how many packets were lost.
			return ProbeSpec{Argv: []string{"/usr/bin/ping", "-n", "-c", "4", "-w", "11", "--", target}, Within: 12 * time.Second, Most: probeOutput, Raw: true}, nil
		}
		return ProbeSpec{Argv: []string{"/usr/bin/traceroute.db", "-n", "-m", "20", "-w", "3", "--", target}, Within: time.Minute, Most: probeOutput}, nil
	case ProbeDig:
		return p.dig()
	case ProbeCurl:
		target, err := ProbeURL(p.Target)
		if err != nil {
			return ProbeSpec{}, err
		}
		return ProbeSpec{Argv: append(slices.Clone(curl), target), Within: 11 * time.Second, Most: probeOutput}, nil
	}
	return ProbeSpec{}, fmt.Errorf("unknown tool %q", string(p.Tool))
}

// curl fetches one page and shows the connection, the certificate and the headers, but not the body. It reads no configuration,
// uses no proxy, follows no redirect and speaks only HTTP.
var curl = []string{
	"/usr/bin/curl", "--disable", "--proto", "=http,https", "--max-redirs", "0", "--globoff", "--noproxy", "*", "--silent", "--show-error", "--verbose",
	"--max-time", "10", "--output", "/dev/null", "--write-out",
	`\nstatus %{http_code}, %{size_download} bytes\nname %{time_namelookup} s, connected %{time_connect} s, TLS %{time_appconnect} s, first byte %{time_starttransfer} s, total %{time_total} s\n`,
	"--url",
}

func (p Probe) dig() (ProbeSpec, error) {
	if !slices.Contains(ProbeTypes, p.Type) {
		return ProbeSpec{}, fmt.Errorf("unknown record type %q", p.Type)
	}
	name, err := ProbeName(p.Target, p.Type)
	if err != nil {
		return ProbeSpec{}, err
	}
	argv := []string{"/usr/bin/dig", "-r", "+time=3", "+tries=2", "-t", p.Type, "-q", name}
	if p.Server.IsValid() {
		argv = append(argv, "@"+p.Server.WithZone("").String())
	}
	return ProbeSpec{Argv: argv, Within: 15 * time.Second, Most: probeOutput}, nil
}

// ProbeTypes lists the record types that dig may ask for.
var ProbeTypes = []string{"A", "AAAA", "CNAME", "MX", "TXT", "NS", "SOA", "PTR", "SRV", "CAA"}

var errProbeTarget = errors.New("may only contain letters, digits and . : / _ -, and must not begin with a hyphen")

var probeTarget = regexp.MustCompile(`^[A-Za-z0-9.:/_][A-Za-z0-9.:/_-]{0,252}$`)

// ProbeHost parses a target as a host name or an address.
func ProbeHost(target string) (string, error) {
	if !probeTarget.MatchString(target) {
		return "", errProbeTarget
	}
	h, err := value.Parse[value.Host](target)
	return h.String(), err
}

var probeName = regexp.MustCompile(`^(\.|([A-Za-z0-9_/-]{1,63}\.)*[A-Za-z0-9_/-]{1,63}\.?)$`)

// ProbeName returns the name to query for a target. For an address and the type PTR it is the reverse name.
func ProbeName(target, kind string) (string, error) {
	if !probeTarget.MatchString(target) {
		return "", errProbeTarget
	}
	ip, err := netip.ParseAddr(target)
	switch {
	case err == nil && kind == "PTR":
		return reverseName(ip), nil
	case err == nil:
		return "", errors.New("is an address: choose the type PTR, or give a name")
	case !probeName.MatchString(target):
		return "", errors.New("must be a DNS name")
	}
	return target, nil
}

func reverseName(ip netip.Addr) string {
	var labels []string
	if ip = ip.Unmap(); ip.Is4() {
		for _, b := range ip.As4() {
			labels = append(labels, strconv.Itoa(int(b)))
		}
		slices.Reverse(labels)
		return strings.Join(labels, ".") + ".in-addr.arpa"
	}
	for _, b := range ip.As16() {
		labels = append(labels, strconv.FormatUint(uint64(b>>4), 16), strconv.FormatUint(uint64(b&15), 16))
	}
	slices.Reverse(labels)
	return strings.Join(labels, ".") + ".ip6.arpa"
}

var probeScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:/`)

// ProbeURL parses a target as a URL. The default scheme is http, as in curl.
func ProbeURL(target string) (string, error) {
	if !probeTarget.MatchString(target) {
		return "", errProbeTarget
	}
	scheme, rest := "http", target
	if probeScheme.MatchString(target) {
		var ok bool
		if scheme, rest, ok = strings.Cut(target, "://"); !ok || !slices.Contains([]string{"http", "https"}, strings.ToLower(scheme)) {
			return "", errors.New("must begin with http:// or https://")
		}
	}
	authority, path, _ := strings.Cut(rest, "/")
	name, port, ported := strings.Cut(authority, ":")
	h, err := value.Parse[value.Host](name)
	if err != nil {
		return "", errors.New("must be a URL such as https://example.net/path; instead of an IPv6 address, give a name")
	}
	if ported {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", errors.New("has an invalid port: it must be between 1 and 65535")
		}
		port = ":" + port
	}
	return strings.ToLower(scheme) + "://" + h.String() + port + "/" + path, nil
}

// ProbePort splits a target such as 192.0.2.1:443 into host and port; the port is 0 if there is none.
func ProbePort(target string) (name string, port int, err error) {
	if !probeTarget.MatchString(target) {
		return "", 0, errProbeTarget
	}
	name = target
	if strings.Count(target, ":") == 1 {
		var text string
		name, text, _ = strings.Cut(target, ":")
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return "", 0, errors.New("has an invalid port: it must be between 1 and 65535")
		}
		port = int(n)
	}
	h, err := value.Parse[value.Host](name)
	return h.String(), port, err
}

var CaptureProtocols = []string{"tcp", "udp", "icmp", "icmp6", "arp"}

// spec builds the filter from fixed words and parsed values, so no filter syntax comes from outside.
func (c Capture) spec() (ProbeSpec, error) {
	switch name, err := value.Parse[value.IfName](c.Interface); {
	case err != nil || name.IsZero():
		return ProbeSpec{}, fmt.Errorf("%q is not an interface name", c.Interface)
	case c.Protocol != "" && !slices.Contains(CaptureProtocols, c.Protocol):
		return ProbeSpec{}, fmt.Errorf("unknown protocol %q", c.Protocol)
	case c.Port != 0 && c.Protocol != "" && c.Protocol != "tcp" && c.Protocol != "udp":
		return ProbeSpec{}, fmt.Errorf("%s has no ports", c.Protocol)
	case c.Packets < 1 || c.Packets > CaptureMostPackets:
		return ProbeSpec{}, fmt.Errorf("%d packets: must be between 1 and %d", c.Packets, CaptureMostPackets)
	case c.Bytes < 1 || c.Bytes > CaptureMostBytes:
		return ProbeSpec{}, fmt.Errorf("%d bytes: must be between 1 and %d", c.Bytes, CaptureMostBytes)
	case c.Within < time.Second || c.Within > CaptureMostSeconds*time.Second:
		return ProbeSpec{}, fmt.Errorf("%s: must be between 1 and %d seconds", c.Within, CaptureMostSeconds)
	}
	// -U writes each packet immediately. -p leaves the interface out of promiscuous mode.
	argv := []string{"/usr/bin/tcpdump", "-i", c.Interface, "-n", "-p", "-U", "-c", strconv.Itoa(c.Packets), "-w", "-"}
	var terms [][]string
	if c.Protocol != "" {
		terms = append(terms, []string{c.Protocol})
	}
	if c.Host.IsValid() {
		terms = append(terms, []string{"net", c.Host.Masked().String()})
	}
	if c.Port != 0 {
		terms = append(terms, []string{"port", strconv.Itoa(int(c.Port))})
	}
	if c.Without.IsValid() {
		terms = append(terms, []string{"not", "(", "host", c.Without.Addr().WithZone("").String(), "and", "tcp", "port", strconv.Itoa(int(c.Without.Port())), ")"})
	}
	for i, term := range terms {
		if i > 0 {
			argv = append(argv, "and")
		}
		argv = append(argv, term...)
	}
	return ProbeSpec{Argv: argv, Within: c.Within, Most: c.Bytes, Raw: true, Apart: true}, nil
}
