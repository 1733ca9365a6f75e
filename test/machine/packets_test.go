package machine

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// The addresses of the three machines.
const (
	gwWan4, gwWan6 = "198.51.100.1", "2001:db8:1::1"
	gwLan4, gwLan6 = "10.10.0.1", "fd00:10::1"
	wan4, wan6     = "198.51.100.2", "2001:db8:1::2"
	lan4, lan6     = "10.10.0.2", "fd00:10::2"
)

// failpoints is where points are armed that make the API die.
const failpoints = "/run/gateway/failpoints"

const (
	// silence is how long a probe waits that should stay without an answer.
	silence = 250 * time.Millisecond
	// patience is how long one waits that should get one.
	patience = 20 * time.Second
)

// rig is the lab with servers on every side that return their name and the client's address.
type rig struct {
	*labtest.Lab
	services map[string]string // ids, by protocol and ports
	arrived  [3]atomic.Int64   // at the servers of the wan, the lan and the gateway
}

// The ports of the servers, for tcp and udp; port nobody has no server.
const (
	firstPort, lastPort = 7001, 7006
	nobody              = 7099
)

var packetTests = []struct {
	name string
	test func(*testing.T, *rig)
}{
	{"FW01DefaultDrop", defaultDrop},
	{"AcceptByZonePair", acceptByZonePair},
	{"DropAndReject", dropAndReject},
	{"FW11NobodyLocksHimselfOut", noLockout},
	{"WhereARuleApplies", whereARuleApplies},
	{"Sources", sources},
	{"NamesFollowTheDNS", namesFollowTheDNS},
	{"Services", services},
	{"FirstMatchByPriority", firstMatch},
	{"DestinationNAT", destinationNAT},
	{"SourceNAT", sourceNAT},
	{"FW22CountersAndLog", countersAndLog},
	{"FW26TimeServiceOpensItsPort", timeServiceOpening},
	{"ExplainMine", explainMine},
	{"Impact", impact},
	{"NE02LinksComeAndGo", linksComeAndGo},
	{"NE03ForeignStateSurvives", foreignStateSurvives},
	{"NE06Routes", routes},
	{"AdoptionInterruptsNothing", adoptionInterruptsNothing},
	{"FW02ManyApplies", manyApplies},
	{"KillDuringApply", killDuringApply},
	{"KeptTableWithoutDatabase", keptTableWithoutDatabase},
	{"FW23TableDeletedByHand", tableDeletedByHand},
	{"ABusyNeighbour", busyNeighbour},
	{"NoForwardingWithoutAFilter", noForwardingWithoutAFilter},
}

// packets runs the tests that send packets through the gateway.
func packets(t *testing.T, l *labtest.Lab) {
	r := &rig{Lab: l, services: map[string]string{}}
	if err := errors.Join(os.MkdirAll(l.Path(failpoints), 0o777), os.Chmod(l.Path(failpoints), 0o777)); err != nil { // the API disarms a point that has struck
		t.Fatal(err)
	}
	// Early, for a resolver reads the file again only after seconds.
	l.Run(t, lab.Gateway, "sh", "-c", "rm -f /etc/resolv.conf; echo nameserver "+wan4+" > /etc/resolv.conf")
	for _, side := range sides {
		// Every refusal is to be seen, however many there are.
		l.Run(t, side, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv6/icmp/ratelimit; echo 100000 > /proc/sys/net/ipv4/icmp_msgs_per_sec")
	}
	r.adopt(t)
	for _, side := range sides {
		for port := firstPort; port <= lastPort; port++ {
			r.serve(t, side, port)
		}
	}
	for _, x := range packetTests {
		t.Run(x.name, func(t *testing.T) {
			r.slate(t)
			x.test(t, r)
		})
	}
}

var sides = []lab.Side{lab.Wan, lab.Lan, lab.Gateway}

// adopt declares the links of the lab, unless they are declared.
func (r *rig) adopt(t *testing.T) {
	t.Helper()
	var found []struct {
		Name, Type string
		Addresses  []struct {
			Address string
			Prefix  int
		}
	}
	r.Must(t, http.MethodGet, "/network/adoptable", nil, 200, &found)
	var operations []operation
	for _, link := range found {
		role := map[string]string{"wan0": "wan", "lan0": "lan"}[link.Name]
		if role == "" {
			continue
		}
		row := create("network.interface", fields{"name": link.Name, "type": link.Type, "role": role})
		operations = append(operations, row)
		for _, a := range link.Addresses {
			operations = append(operations, create("network.ip-address", fields{"interface_id": row.ID, "address": a.Address, "prefix": a.Prefix}))
		}
	}
	if len(operations) > 0 {
		r.change(t, operations...)
	}
	r.WaitState(t, "network", "live", 10*time.Second)
}

type fields map[string]any

// operation is one step of a change set.
type operation struct {
	Kind string `json:"kind"`
	Verb string `json:"verb"`
	ID   string `json:"id,omitempty"`
	Body fields `json:"body,omitempty"`
}

func create(kind string, body fields) operation {
	return operation{Kind: kind, Verb: "create", ID: uuid.NewString(), Body: body}
}

// change stores all of it with one apply.
func (r *rig) change(t *testing.T, operations ...operation) {
	t.Helper()
	a := r.Must(t, http.MethodPost, "/change-sets", fields{"operations": operations}, 200, nil)
	for _, part := range strings.Split(a.Header.Get("Gateway-Apply"), ", ") {
		if !strings.HasSuffix(part, "=live") {
			t.Fatalf("Gateway-Apply: %s", a.Header.Get("Gateway-Apply"))
		}
	}
}

// slate removes every rule and NAT rule: a test starts with the built-in behaviour only.
func (r *rig) slate(t *testing.T) {
	t.Helper()
	var operations []operation
	for path, kind := range map[string]string{"/firewall/rules": "firewall.rule", "/nat-rules": "firewall.nat-rule"} {
		var rows []struct{ ID string }
		r.Must(t, http.MethodGet, path, nil, 200, &rows)
		for _, row := range rows {
			operations = append(operations, operation{Kind: kind, Verb: "delete", ID: row.ID})
		}
	}
	if len(operations) > 0 {
		r.change(t, operations...)
	}
}

// rules stores rules, which accept from any zone to any unless they say otherwise, and answers their ids.
func (r *rig) rules(t *testing.T, rules ...fields) []string {
	t.Helper()
	return r.rows(t, "firewall.rule", fields{"src_zone": "any", "dst_zone": "any", "action": "accept"}, rules)
}

// nat stores NAT rules from any zone to any for tcp, unless they say otherwise, and answers their ids.
func (r *rig) nat(t *testing.T, rules ...fields) []string {
	t.Helper()
	return r.rows(t, "firewall.nat-rule", fields{"in_zone": "any", "out_zone": "any", "protocol": "tcp"}, rules)
}

func (r *rig) rows(t *testing.T, kind string, defaults fields, rows []fields) (ids []string) {
	t.Helper()
	var operations []operation
	for n, row := range rows {
		body := fields{"name": fmt.Sprintf("%s %d", t.Name(), n)}
		for _, from := range []fields{defaults, row} {
			for k, v := range from {
				body[k] = v
			}
		}
		o := create(kind, body)
		operations, ids = append(operations, o), append(ids, o.ID)
	}
	r.change(t, operations...)
	return ids
}

// row stores one row and answers its id.
func (r *rig) row(t *testing.T, path string, body fields) string {
	t.Helper()
	var row struct{ ID string }
	r.Must(t, http.MethodPost, path, body, 201, &row)
	return row.ID
}

// put changes some fields of a row.
func (r *rig) put(t *testing.T, path string, body fields) {
	t.Helper()
	r.Must(t, http.MethodPut, path, body, 200, nil)
}

// service is the id of the service with these ports.
func (r *rig) service(t *testing.T, protocol string, ports ...int) string {
	t.Helper()
	name := fmt.Sprint(protocol, ports)
	if r.services[name] == "" {
		body := fields{"name": name, "protocol": protocol}
		if len(ports) > 0 {
			body["port_start"], body["port_end"] = ports[0], ports[len(ports)-1]
		}
		r.services[name] = r.row(t, "/firewall/services", body)
	}
	return r.services[name]
}

// serve answers on a port of a side until the test ends: each line or datagram with the server's name and the client's address.
func (r *rig) serve(t *testing.T, side lab.Side, port int) {
	t.Helper()
	name := fmt.Sprintf("%s:%d", side, port)
	r.listen(t, side, fmt.Sprintf(":%d", port), func(seen netip.AddrPort) string {
		r.arrived[slices.Index(sides, side)].Add(1)
		return fmt.Sprintf("%s %s\n", name, seen.Addr())
	})
}

// listen answers tcp lines and udp datagrams at an address of a side until the test ends.
func (r *rig) listen(t *testing.T, side lab.Side, address string, answer func(seen netip.AddrPort) string) {
	t.Helper()
	err := r.Within(side, func() error {
		tcp, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		t.Cleanup(func() { tcp.Close() })
		go answerTCP(tcp, answer)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.listenUDP(t, side, address, answer)
}

// listenUDP answers udp datagrams at an address of a side until the test ends, also those for an HAProxy with HTTP/3 that listens on
// the same port of all addresses.
func (r *rig) listenUDP(t *testing.T, side lab.Side, address string, answer func(seen netip.AddrPort) string) {
	t.Helper()
	err := r.Within(side, func() error {
		shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			var refused error
			err := c.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
			return errors.Join(err, refused)
		}}
		udp, err := shared.ListenPacket(t.Context(), "udp", address)
		if err != nil {
			return err
		}
		t.Cleanup(func() { udp.Close() })
		go answerUDP(udp.(*net.UDPConn), answer)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func answerTCP(l net.Listener, answer func(netip.AddrPort) string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			seen := unmapped(conn.RemoteAddr().(*net.TCPAddr).AddrPort())
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if _, err := io.WriteString(conn, answer(seen)); err != nil {
					return
				}
			}
		}()
	}
}

func answerUDP(conn *net.UDPConn, answer func(netip.AddrPort) string) {
	buf := make([]byte, 1500)
	for {
		_, from, err := conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = conn.WriteToUDPAddrPort([]byte(answer(unmapped(from))), from)
		}
	}
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// What a client sees.
const (
	open    = "open"    // followed by the server, and the client address that it saw
	refused = "refused" // the gateway refused it
	closed  = "closed"  // the machine itself refused it: the gateway let it pass
	silent  = "silent"
)

// probe is one attempt of a client, and the expected result.
type probe struct {
	from  lab.Side
	proto string // tcp, udp or icmp; icmp includes ICMPv6
	addr  string
	port  int
	want  string
}

func (p probe) String() string {
	return fmt.Sprintf("%s to %s port %d by %s", p.from, p.addr, p.port, p.proto)
}

// expect makes all attempts concurrently, and compares the gateway's explanation of each with the result.
func (r *rig) expect(t *testing.T, probes ...probe) {
	t.Helper()
	var all sync.WaitGroup
	for _, p := range probes {
		all.Go(func() {
			wait := patience
			if p.want == silent {
				wait = silence
			}
			got, _ := r.attempt(p, wait)
			if !matches(p.want, got) {
				t.Errorf("%s: %s instead of %s", p, got, p.want)
			}
		})
	}
	all.Wait()
	verdicts := map[string]string{open: "accept", closed: "accept", refused: "reject", silent: "drop"}
	for _, p := range probes {
		kind, _, _ := strings.Cut(p.want, " ")
		if x := r.explain(t, p); x.Verdict != verdicts[kind] {
			t.Errorf("%s: %s, but explained as %+v", p, p.want, x)
		}
	}
	if t.Failed() {
		t.Logf("%s", r.Run(t, lab.Gateway, "nft", "list", "table", "inet", "gateway"))
		t.FailNow()
	}
}

// matches reports whether the result begins with the expected words.
func matches(want, got string) bool {
	if want == closed {
		want = refused // a client sees no difference
	}
	return strings.HasPrefix(got+" ", want+" ")
}

type explanation struct {
	Verdict   string
	Path      string
	DecidedBy struct {
		Kind, Name, Text string
		RuleID           string `json:"rule_id"`
	} `json:"decided_by"`
	Packet struct {
		Source, Destination string
		DestinationPort     *int `json:"destination_port"`
	}
}

func (r *rig) explain(t *testing.T, p probe) (x explanation) {
	t.Helper()
	v6 := strings.Contains(p.addr, ":")
	question := fields{"destination": p.addr, "protocol": p.proto}
	switch {
	case p.from == lab.Wan && v6:
		question["in_interface"], question["source"] = "wan0", wan6
	case p.from == lab.Wan:
		question["in_interface"], question["source"] = "wan0", wan4
	case v6:
		question["in_interface"], question["source"] = "lan0", lan6
	default:
		question["in_interface"], question["source"] = "lan0", lan4
	}
	if p.proto != "icmp" {
		question["destination_port"] = p.port
	} else if v6 {
		question["protocol"] = "icmpv6"
	}
	r.Must(t, http.MethodPost, "/firewall/explain", question, 200, &x)
	return x
}

// localPorts gives every attempt a unique port, below the kernel's ephemeral ones.
var localPorts atomic.Int32

// attempt makes one attempt and returns what the client saw, and its port.
func (r *rig) attempt(p probe, wait time.Duration) (got string, local int) {
	local = 20000 + int(localPorts.Add(1))%12000
	err := r.Within(p.from, func() (err error) {
		if p.proto == "icmp" {
			got, err = ping(netip.MustParseAddr(p.addr), wait)
			return err
		}
		got, err = converse(p.proto, net.JoinHostPort(p.addr, strconv.Itoa(p.port)), local, wait)
		return err
	})
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused, local
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, unix.EAGAIN):
		return silent, local
	case err != nil:
		return "failed: " + err.Error(), local
	}
	return open + " " + got, local
}

// converse sends a line and returns the answer.
func converse(network, address string, local int, wait time.Duration) (string, error) {
	conn, err := dial(network, address, local, wait)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if network == "udp" && strings.HasSuffix(address, ":123") {
		return askTime(conn, wait)
	}
	answer, err := say(conn, wait)
	if network == "tcp" && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		err = nil // it was accepted, but got unexpected data
	}
	return answer, err
}

// askTime sends a request like an NTP client.
func askTime(conn net.Conn, wait time.Duration) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(wait))
	question := make([]byte, 48)
	question[0] = 4<<3 | 3 // version 4, a client
	if _, err := conn.Write(question); err != nil {
		return "", err
	}
	_, err := conn.Read(question)
	return "", err
}

func dial(network, address string, local int, wait time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: wait, LocalAddr: &net.TCPAddr{Port: local}}
	if network == "udp" {
		d.LocalAddr = &net.UDPAddr{Port: local}
	}
	return d.Dial(network, address)
}

// say sends a line and returns the answer.
func say(conn net.Conn, wait time.Duration) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(wait))
	if _, err := io.WriteString(conn, "who are you?\n"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

var pings atomic.Uint32

// ping sends an echo request and waits for the reply. It blocks its thread.
func ping(to netip.Addr, wait time.Duration) (string, error) {
	e, err := newEchoes(to, wait)
	if err != nil {
		return "", err
	}
	defer e.close()
	return "", e.ask()
}

// echoes are echo requests of one flow to one address.
type echoes struct {
	fd             int
	wait           time.Duration
	address        unix.Sockaddr
	request, reply byte
	skip           int // length of the IP header before a reply
	id, sequence   uint16
	needsChecksum  bool
}

func newEchoes(to netip.Addr, wait time.Duration) (*echoes, error) {
	e := &echoes{wait: wait, address: &unix.SockaddrInet6{Addr: to.As16()}, request: 128, reply: 129, id: uint16(pings.Add(1))}
	family, protocol := unix.AF_INET6, unix.IPPROTO_ICMPV6
	if to.Is4() {
		family, protocol = unix.AF_INET, unix.IPPROTO_ICMP
		e.address, e.request, e.reply, e.skip, e.needsChecksum = &unix.SockaddrInet4{Addr: to.As4()}, 8, 0, 20, true
	}
	var err error
	if e.fd, err = unix.Socket(family, unix.SOCK_RAW, protocol); err != nil {
		return nil, err
	}
	timeout := unix.NsecToTimeval(int64(wait))
	if err := unix.SetsockoptTimeval(e.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *echoes) close() { _ = unix.Close(e.fd) }

// ask sends the next request and waits for its reply.
func (e *echoes) ask() error {
	e.sequence++
	packet := binary.BigEndian.AppendUint16([]byte{e.request, 0, 0, 0}, e.id)
	packet = binary.BigEndian.AppendUint16(packet, e.sequence)
	if e.needsChecksum { // the kernel fills in that of IPv6
		sum := uint32(e.request)<<8 + uint32(e.id) + uint32(e.sequence)
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(packet[2:], ^uint16(sum+sum>>16))
	}
	if err := unix.Sendto(e.fd, packet, 0, e.address); err != nil {
		return err
	}
	deadline := time.Now().Add(e.wait)
	for buf := make([]byte, 1500); time.Now().Before(deadline); {
		n, _, err := unix.Recvfrom(e.fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if p := buf[min(e.skip, n):n]; len(p) >= 8 && p[0] == e.reply && binary.BigEndian.Uint16(p[4:]) == e.id && binary.BigEndian.Uint16(p[6:]) == e.sequence {
			return nil
		}
	}
	return os.ErrDeadlineExceeded
}

// hold opens a connection that stays open until the test ends.
func (r *rig) hold(t *testing.T, from lab.Side, address string) net.Conn {
	t.Helper()
	var conn net.Conn
	err := r.Within(from, func() (err error) {
		conn, err = net.DialTimeout("tcp", address, patience)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// event is one of the packet log.
type event struct {
	RuleID          string `json:"rule_id"`
	Action          string
	Chain           string
	Proto           string
	Source          string
	Destination     string
	SourcePort      int `json:"source_port"`
	DestinationPort int `json:"destination_port"`
	Interface       string
	OutInterface    string `json:"out_interface"`
}

func (r *rig) log(t *testing.T, query string) []event {
	t.Helper()
	var page struct {
		Events []event
		Error  string
	}
	if r.Must(t, http.MethodGet, "/firewall/log?"+query, nil, 200, &page); page.Error != "" {
		t.Fatal(page.Error)
	}
	return page.Events
}

// logged waits until the log has the event.
func (r *rig) logged(t *testing.T, want event) {
	t.Helper()
	waittest.UntilNil(t, fmt.Sprintf("%+v is logged", want), func() error {
		if last := r.log(t, "limit=100"); !slices.Contains(last, want) {
			return fmt.Errorf("\n%+v", last[:min(len(last), 10)])
		}
		return nil
	})
}

// table is the gateway's table in the kernel, without volatile values; empty when there is none.
func (r *rig) table(t testing.TB) string {
	t.Helper()
	cmd, err := r.Command(context.Background(), lab.Gateway, "nft", "-j", "list", "table", "inet", "gateway")
	if err != nil {
		t.Error(err)
	}
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "No such file or directory"):
		return ""
	case err != nil:
		t.Errorf("%v: %s", err, out)
	}
	return normal(t, out)
}

// place is what an object of a listing is sorted by.
func place(object any) string {
	named, _ := object.(map[string]any)
	for kind, x := range named {
		fields, _ := x.(map[string]any)
		if kind == "rule" {
			return fmt.Sprint("rules of ", fields["chain"])
		}
		return fmt.Sprint(kind, fields["name"])
	}
	return ""
}

// normal is a listing of nft without handles and counts. The order of rules matters, that of chains and sets does not.
func normal(t testing.TB, listing []byte) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal(listing, &tree); err != nil {
		t.Errorf("%v in %s", err, listing)
	}
	var strip func(any)
	strip = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			for _, moving := range []string{"handle", "packets", "bytes", "metainfo"} {
				delete(x, moving)
			}
			for _, v := range x {
				strip(v)
			}
		case []any:
			for _, v := range x {
				strip(v)
			}
		}
	}
	strip(tree)
	if listing, ok := tree.(map[string]any); ok {
		objects, _ := listing["nftables"].([]any)
		slices.SortStableFunc(objects, func(a, b any) int { return strings.Compare(place(a), place(b)) })
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// answered complains unless a request was answered with the status.
func answered(a *labtest.Answer, err error, status int) error {
	if err == nil && a.Status != status {
		err = fmt.Errorf("it is answered with %d: %s", a.Status, a.Body)
	}
	return err
}

// another waits until a unit runs as another process than the killed one: the moment without a process may be too short to see.
func another(t *testing.T, units host.Units, u host.Unit, killed int) {
	t.Helper()
	waittest.UntilNil(t, fmt.Sprintf("another %s runs", u), func() error {
		now, err := units.State(t.Context(), u)
		if err == nil && (now.Active != "active" || now.PID == killed) {
			err = fmt.Errorf("%+v, and %d was killed", now, killed)
		}
		return err
	})
}

// back waits until the API answers from its database.
func (r *rig) back(t *testing.T) {
	t.Helper()
	waittest.UntilNil(t, "the API is back", func() error {
		a, err := r.Do(t.Context(), http.MethodGet, "/firewall/zones", nil)
		return answered(a, err, 200)
	})
}
