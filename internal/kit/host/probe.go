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

// Probes runs the programs that look at the network for an operator: without root, and without the gateway's own rights.
type Probes interface {
	// Probe runs a program of the closed list and hands on what it prints, while it runs. The sink must not keep what it gets. When the
	// context ends, so do the program and its children.
	Probe(ctx context.Context, p Probe, sink func(output []byte)) (ProbeEnd, error)
}

var probesVerbs = daemon.Verbs{
	"Probe": daemon.Probed,
}

// ProbeSocket is where the programs that look at the network are asked for. It is beside HelperSocket.
var ProbeSocket = filepath.Join(filepath.Dir(HelperSocket), "probe.sock")

// ProbeTool is one of the programs.
type ProbeTool string

// The tools.
const (
	ProbePing       ProbeTool = "ping"
	ProbeTraceroute ProbeTool = "traceroute"
	ProbeDig        ProbeTool = "dig"
	ProbeCurl       ProbeTool = "curl"
	ProbeCapture    ProbeTool = "capture" // what it prints is a file of the format pcap
)

// Probe is what a tool is asked. Only the fields that the tool takes may be set.
type Probe struct {
	Tool    ProbeTool
	Target  string     // a host name or address; a name for dig; a URL for curl
	Type    string     // dig: the type of the records
	Server  netip.Addr // dig: whom to ask instead of the machine's own resolver
	Capture Capture
}

// Capture says which packets are captured, and how many.
type Capture struct {
	Interface string
	Protocol  string       // tcp, udp, icmp, icmp6, arp; empty for any
	Host      netip.Prefix // of either end; not valid for any
	Port      uint16       // of either end; zero for any
	// Without is one end of a connection that is left out: the one that carries the capture itself.
	Without netip.AddrPort
	Packets int
	Bytes   int64
	Within  time.Duration
}

// ProbeEnd is how a probe ended.
type ProbeEnd struct {
	ExitStatus int
	Duration   time.Duration
	TimedOut   bool   // it was ended because it took too long
	Truncated  bool   // it was ended because it printed too much
	Said       string // what a capture said, beside the packets
}

// The bounds of a capture.
const (
	CaptureMostPackets = 1_000_000
	CaptureMostBytes   = 100 << 20
	CaptureMostSeconds = 300
)

// probeOutput is how much a tool may print.
const probeOutput = 256 << 10

// ProbeSpec is how a probe is run.
type ProbeSpec struct {
	Argv   []string
	Within time.Duration
	Most   int64 // bytes that it may print
	// Raw says that the program needs raw sockets.
	Raw bool
	// Apart keeps what the program says to its error stream apart from its output.
	Apart bool
}

// Spec checks what the tool is asked, and says how it is run.
func (p Probe) Spec() (ProbeSpec, error) {
	if p.Tool == ProbeCapture {
		return p.Capture.spec()
	}
	if p.Capture != (Capture{}) {
		return ProbeSpec{}, fmt.Errorf("%s captures nothing", p.Tool)
	}
	if p.Tool != ProbeDig && (p.Type != "" || p.Server.IsValid()) {
		return ProbeSpec{}, fmt.Errorf("%s takes no type and no server", p.Tool)
	}
	switch p.Tool {
	case ProbePing, ProbeTraceroute:
		target, err := ProbeHost(p.Target)
		if err != nil {
			return ProbeSpec{}, err
		}
		if p.Tool == ProbePing {
			// It gives up before it would be ended, so that it can say how many packets were lost.
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
	return ProbeSpec{}, fmt.Errorf("no tool %q in the list", string(p.Tool))
}

// curl asks for one page and shows the connection, the certificate and the headers, but not the page. It reads no configuration, goes
// through no proxy, follows no redirect and speaks nothing but HTTP.
var curl = []string{
	"/usr/bin/curl", "--disable", "--proto", "=http,https", "--max-redirs", "0", "--globoff", "--noproxy", "*", "--silent", "--show-error", "--verbose",
	"--max-time", "10", "--output", "/dev/null", "--write-out",
	`\nstatus %{http_code}, %{size_download} bytes\nname %{time_namelookup} s, connected %{time_connect} s, TLS %{time_appconnect} s, first byte %{time_starttransfer} s, total %{time_total} s\n`,
	"--url",
}

func (p Probe) dig() (ProbeSpec, error) {
	if !slices.Contains(ProbeTypes, p.Type) {
		return ProbeSpec{}, fmt.Errorf("no record type %q in the list", p.Type)
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

// ProbeTypes are the record types that dig may ask for.
var ProbeTypes = []string{"A", "AAAA", "CNAME", "MX", "TXT", "NS", "SOA", "PTR", "SRV", "CAA"}

var errProbeTarget = errors.New("must have only letters, digits and . : / _ - in it, and must not begin with a dash")

var probeTarget = regexp.MustCompile(`^[A-Za-z0-9.:/_][A-Za-z0-9.:/_-]{0,252}$`)

// ProbeHost is the host name or address that a target is.
func ProbeHost(target string) (string, error) {
	if !probeTarget.MatchString(target) {
		return "", errProbeTarget
	}
	h, err := value.Parse[value.Host](target)
	return h.String(), err
}

var probeName = regexp.MustCompile(`^(\.|([A-Za-z0-9_/-]{1,63}\.)*[A-Za-z0-9_/-]{1,63}\.?)$`)

// ProbeName is the name that records of the type are asked for: of an address that of its PTR record.
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

// reverseName is the name of an address in the DNS.
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

// ProbeURL is the URL that a target is. Without a scheme it is one of http, as for curl itself.
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
		return "", errors.New("must be a URL such as https://example.net/path; of an IPv6 address, give a name instead")
	}
	if ported {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", errors.New("has a port that is none: it must be between 1 and 65535")
		}
		port = ":" + port
	}
	return strings.ToLower(scheme) + "://" + h.String() + port + "/" + path, nil
}

// ProbePort is the host and port that a target names, as in 192.0.2.1:443. A target without a port has none.
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
			return "", 0, errors.New("has a port that is none: it must be between 1 and 65535")
		}
		port = int(n)
	}
	h, err := value.Parse[value.Host](name)
	return h.String(), port, err
}

// CaptureProtocols are those that a capture can be limited to.
var CaptureProtocols = []string{"tcp", "udp", "icmp", "icmp6", "arp"}

// spec makes the filter of the fields: no word of it comes from outside.
func (c Capture) spec() (ProbeSpec, error) {
	switch name, err := value.Parse[value.IfName](c.Interface); {
	case err != nil || name.IsZero():
		return ProbeSpec{}, fmt.Errorf("the interface %q: must be the name of one", c.Interface)
	case c.Protocol != "" && !slices.Contains(CaptureProtocols, c.Protocol):
		return ProbeSpec{}, fmt.Errorf("no protocol %q in the list", c.Protocol)
	case c.Port != 0 && c.Protocol != "" && c.Protocol != "tcp" && c.Protocol != "udp":
		return ProbeSpec{}, fmt.Errorf("%s has no ports", c.Protocol)
	case c.Packets < 1 || c.Packets > CaptureMostPackets:
		return ProbeSpec{}, fmt.Errorf("%d packets: must be between 1 and %d", c.Packets, CaptureMostPackets)
	case c.Bytes < 1 || c.Bytes > CaptureMostBytes:
		return ProbeSpec{}, fmt.Errorf("%d bytes: must be between 1 and %d", c.Bytes, CaptureMostBytes)
	case c.Within < time.Second || c.Within > CaptureMostSeconds*time.Second:
		return ProbeSpec{}, fmt.Errorf("%s: must be between 1 and %d seconds", c.Within, CaptureMostSeconds)
	}
	// -U: a packet is written as soon as it is there; -p: what the machine sees without asking for more.
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
