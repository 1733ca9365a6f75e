package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

const (
	// deaf is the port of servers that receive and never answer: connections to them are never established.
	deaf = 7011
	// The second addresses of the gateway, which changes take away.
	spareWan4, spareLan4 = "198.51.100.77", "10.10.0.77"
	// far is an address behind the wan, which is reached by routes.
	far = "203.0.113.7"
	// heard is how long to wait for a packet that might not arrive.
	heard = 500 * time.Millisecond
)

// routers have a route to far: two on the wan's network, and one on a separate network.
var routers = []string{wan4, "198.51.100.3", "192.0.2.2"}

// impact holds what previews say about live connections against what happens to them.
func impact(t *testing.T, r *rig) {
	cases := longtest.Number(t, "GATEWAY_IMPACT_CASES", 2, 4)
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("GATEWAY_IMPACT_SEED"), 10, 64); err == nil {
		seed = n
	}
	w := &world{rig: r, reached: map[string]string{}}
	defer w.goFar(t)()
	for _, side := range sides {
		w.listen(t, side)
	}
	spare := map[string]string{spareWan4: r.address(t, "wan0", spareWan4, 24), spareLan4: r.address(t, "lan0", spareLan4, 24)}
	found := map[string]int{}
	for n := range uint64(cases) {
		c := &impactCase{world: w, random: rand.New(rand.NewPCG(seed+n, 0)), spare: spare}
		for effect, count := range c.run(t) {
			found[effect] += count
		}
		if t.Failed() {
			t.Fatalf("with GATEWAY_IMPACT_SEED=%d", seed+n)
		}
	}
	t.Logf("flows by what became of them: %v", found)
	for _, id := range spare {
		r.Must(t, http.MethodDelete, "/ip-addresses/"+id, nil, 200, nil)
	}
}

// world is the rig with deaf servers, which report what they receive to the test only.
type world struct {
	*rig
	mu      sync.Mutex
	reached map[string]string // by message: the server that received it, the sender, and the interface
}

// goFar creates the routers and what is behind them, until undo is called. All of them are the machine on the wan, which reports the interface
// on which packets arrive.
func (w *world) goFar(t *testing.T) (undo func()) {
	t.Helper()
	w.Run(t, lab.Wan, "ip", "address", "add", far+"/32", "dev", "lo")
	// Each link answers for its own addresses.
	w.Run(t, lab.Wan, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore")
	w.Run(t, lab.Wan, "ip", "link", "add", "router", "link", "eth0", "type", "macvlan", "mode", "bridge")
	w.Run(t, lab.Wan, "ip", "address", "add", routers[1]+"/32", "dev", "router")
	w.Run(t, lab.Wan, "ip", "link", "set", "router", "up")
	w.Run(t, lab.Gateway, "ip", "link", "add", "alt0", "type", "veth", "peer", "name", "alt0", "netns", "wan")
	w.Run(t, lab.Wan, "ip", "address", "add", routers[2]+"/24", "dev", "alt0")
	for _, side := range []lab.Side{lab.Gateway, lab.Wan} {
		w.Run(t, side, "ip", "link", "set", "alt0", "up")
	}
	alt := w.row(t, "/network-interfaces", fields{"name": "alt0", "type": "ethernet", "role": "dmz"})
	address := w.address(t, "alt0", "192.0.2.1", 24)
	return func() {
		w.Must(t, http.MethodDelete, "/ip-addresses/"+address, nil, 200, nil)
		w.Must(t, http.MethodDelete, "/network-interfaces/"+alt, nil, 200, nil)
		w.Run(t, lab.Gateway, "ip", "link", "delete", "alt0")
		w.Run(t, lab.Wan, "ip", "link", "delete", "router")
		w.Run(t, lab.Wan, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/all/arp_ignore")
		w.Run(t, lab.Wan, "ip", "address", "delete", far+"/32", "dev", "lo")
	}
}

// hears reads a packet, and returns its sender and the interface on which it arrived.
type hears func(buf []byte) (n int, from string, link int, err error)

// hearing4 and hearing6 make a socket report the interface of packets; hearing6 is also for sockets of both families.
func hearing4(conn net.PacketConn) (hears, error) {
	p := ipv4.NewPacketConn(conn)
	return func(buf []byte) (int, string, int, error) {
		n, about, from, err := p.ReadFrom(buf)
		if err != nil || about == nil {
			return n, "", 0, err
		}
		return n, addressOf(from), about.IfIndex, nil
	}, p.SetControlMessage(ipv4.FlagInterface, true)
}

func hearing6(conn net.PacketConn) (hears, error) {
	p := ipv6.NewPacketConn(conn)
	return func(buf []byte) (int, string, int, error) {
		n, about, from, err := p.ReadFrom(buf)
		if err != nil || about == nil {
			return n, "", 0, err
		}
		return n, addressOf(from), about.IfIndex, nil
	}, p.SetControlMessage(ipv6.FlagInterface, true)
}

// listen receives the messages to the deaf server of a side, and echo requests.
func (w *world) listen(t *testing.T, side lab.Side) {
	t.Helper()
	for _, x := range []struct {
		network, address string
		hearing          func(net.PacketConn) (hears, error)
		said             func(packet []byte) string
	}{
		{"udp", fmt.Sprintf(":%d", deaf), hearing6, func(packet []byte) string { return string(packet) }},
		{"ip4:icmp", "0.0.0.0", hearing4, func(packet []byte) string { return echoRequest(packet, 8) }},
		{"ip6:ipv6-icmp", "::", hearing6, func(packet []byte) string { return echoRequest(packet, 128) }},
	} {
		err := w.Within(side, func() error {
			conn, err := net.ListenPacket(x.network, x.address)
			if err != nil {
				return err
			}
			t.Cleanup(func() { conn.Close() })
			hear, err := x.hearing(conn)
			if err != nil {
				return err
			}
			go func() {
				for buf := make([]byte, 1500); ; {
					n, from, link, err := hear(buf)
					if errors.Is(err, net.ErrClosed) {
						return
					}
					if err == nil {
						w.mu.Lock()
						w.reached[x.said(buf[:n])] = fmt.Sprintf("%s %s by link %d", side, from, link)
						w.mu.Unlock()
					}
				}
			}()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func addressOf(a net.Addr) string {
	if udp, ok := a.(*net.UDPAddr); ok {
		return udp.IP.String()
	}
	return a.String()
}

// echoRequest names an echo request; other messages have no name.
func echoRequest(packet []byte, kind byte) string {
	if len(packet) < 8 || packet[0] != kind {
		return ""
	}
	return fmt.Sprint("echo ", packet[4:8])
}

var words = newCounter()

// newCounter numbers the messages to deaf servers.
func newCounter() func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprint("word ", n)
	}
}

// tell sends a message to a deaf server, and returns who received it.
func (w *world) tell(conn net.Conn, wait time.Duration) string {
	word := words()
	_, _ = conn.Write([]byte(word)) // a refusal of an earlier one is reported here
	_, _ = conn.Write([]byte(word))
	return w.heardBy(word, wait)
}

// heardBy returns the server that received a message, the sender, and the interface.
func (w *world) heardBy(word string, wait time.Duration) string {
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		who := w.reached[word]
		w.mu.Unlock()
		if who != "" {
			return open + " " + who
		}
	}
	return silent
}

// flow is a connection, and what became of it.
type flow struct {
	from  lab.Side
	proto string
	addr  string
	port  int
	conn  net.Conn
	echo  *echoes
	local netip.AddrPort
	// The result of the live connection, and of a new one like it.
	live, fresh [2]string
}

// name is what the gateway calls it.
func (f *flow) name() string {
	to := netip.MustParseAddr(f.addr)
	proto := f.proto
	if proto == "icmp" {
		if to.Is6() {
			proto = "icmpv6"
		}
		return fmt.Sprintf("%s %s to %s, id %d", proto, f.local.Addr(), to, f.echo.id)
	}
	return fmt.Sprintf("%s %s to %s", proto, f.local, netip.AddrPortFrom(to, uint16(f.port)))
}

// begin opens the connection of the flow.
func (w *world) begin(f *flow, wait time.Duration) error {
	return w.Within(f.from, func() (err error) {
		v6 := strings.Contains(f.addr, ":")
		address := map[lab.Side][2]string{lab.Wan: {wan4, wan6}, lab.Lan: {lan4, lan6}}[f.from][map[bool]int{true: 1}[v6]]
		if f.proto == "icmp" {
			f.local = netip.AddrPortFrom(netip.MustParseAddr(address), 0)
			f.echo, err = newEchoes(netip.MustParseAddr(f.addr), wait)
			return err
		}
		local := 20000 + int(localPorts.Add(1))%12000
		f.local = netip.AddrPortFrom(netip.MustParseAddr(address), uint16(local))
		f.conn, err = dial(f.proto, net.JoinHostPort(f.addr, strconv.Itoa(f.port)), local, wait)
		return err
	})
}

// use sends a packet over the connection of the flow, and returns the result.
func (w *world) use(f *flow, wait time.Duration) string {
	switch {
	case f.echo != nil:
		if f.echo.ask() != nil {
			return silent
		}
		return w.heardBy(fmt.Sprint("echo ", binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, f.echo.id), f.echo.sequence)), patience)
	case f.conn == nil:
		return silent
	case f.port == deaf:
		return w.tell(f.conn, wait)
	}
	if f.proto == "udp" {
		_ = f.conn.SetDeadline(time.Now().Add(time.Millisecond))
		_, _ = f.conn.Read(make([]byte, 100)) // what came late, and that an earlier one was refused
	}
	answer, err := say(f.conn, wait)
	if err != nil {
		return silent
	}
	return open + " " + answer
}

// try opens another connection like that of the flow, and returns the result.
func (w *world) try(f *flow, wait time.Duration) string {
	other := &flow{from: f.from, proto: f.proto, addr: f.addr, port: f.port}
	if err := w.begin(other, wait); err != nil {
		return silent
	}
	defer other.close()
	return w.use(other, wait)
}

func (f *flow) close() {
	if f.conn != nil {
		f.conn.Close()
	}
	if f.echo != nil {
		f.echo.close()
	}
}

// impactCase is one change of one configuration, with its flows.
type impactCase struct {
	*world
	random *rand.Rand
	spare  map[string]string // ids of the second addresses
	flows  []*flow
}

func pick[T any](c *impactCase, list ...T) T { return list[c.random.IntN(len(list))] }

func (c *impactCase) run(t *testing.T) map[string]int {
	t.Helper()
	c.slate(t)
	operations := c.configuration(t)
	c.change(t, operations...)
	for range 14 {
		c.flows = append(c.flows, c.flow())
	}
	defer func() {
		for _, f := range c.flows {
			f.close()
		}
	}()
	c.all(func(f *flow) { f.fresh[0] = c.try(f, heard) })
	// What was tried is not live, and must not be counted.
	if err := c.Within(lab.Gateway, func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) }); err != nil {
		t.Fatal(err)
	}
	c.all(func(f *flow) {
		if c.begin(f, heard) == nil {
			f.live[0] = c.use(f, heard)
		}
	})
	changes := c.changes(t, operations)
	said := foretold(t, c.Lab, "connections", changes)
	c.change(t, changes...)
	// What is not expected to be silent gets more time.
	c.all(func(f *flow) {
		if f.live[1] = c.use(f, heard); f.live[1] == silent && strings.HasPrefix(f.live[0], open) && said[f.name()].Effect != "cut" {
			f.live[1] = c.use(f, patience)
		}
	})
	c.all(func(f *flow) {
		if f.fresh[1] = c.try(f, heard); f.fresh[1] == silent && strings.HasPrefix(f.fresh[0], open) && said[f.name()].Effect == "" {
			f.fresh[1] = c.try(f, patience)
		}
	})
	found := map[string]int{}
	for _, f := range c.flows {
		if !strings.HasPrefix(f.live[0], open) || !strings.HasPrefix(f.fresh[0], open) {
			found["never open"]++
			continue
		}
		seen := f.effect()
		found[seen]++
		if said[f.name()].Effect != seen {
			t.Errorf("%s (%s port %d): %+v was said, and %q happened: it saw %q, a new one %q", f.name(), f.addr, f.port, said[f.name()], seen, f.live, f.fresh)
		}
	}
	if t.Failed() {
		t.Logf("the change: %+v\n%s", changes, c.Run(t, lab.Gateway, "nft", "list", "table", "inet", "gateway"))
	}
	c.restore(t)
	return found
}

// all does something with every flow at the same time.
func (c *impactCase) all(do func(*flow)) {
	var all sync.WaitGroup
	for _, f := range c.flows {
		all.Go(func() { do(f) })
	}
	all.Wait()
}

// effect is what the change did to the flow, as it was seen.
func (f *flow) effect() string {
	switch {
	case f.live[1] == silent:
		return "cut"
	case f.live[1] != f.live[0]:
		return "rerouted"
	case f.fresh[1] == silent:
		return "blocked_when_reopened"
	case f.fresh[1] != f.fresh[0]:
		return "rerouted_when_reopened"
	}
	return ""
}

// prediction is what a preview predicts for one affected connection or client.
type prediction struct {
	What, Effect string
	After        string `json:"verdict_after"`
}

// foretold returns the predictions of a preview for an area, by name.
func foretold(t *testing.T, l *labtest.Lab, area string, operations []operation) map[string]prediction {
	t.Helper()
	var answer struct {
		Impact []struct {
			Area, Why      string
			Computed       bool
			Checked, Count int
			First          []prediction
		}
	}
	l.Must(t, http.MethodPost, "/change-sets", fields{"operations": operations, "preview": true}, 200, &answer)
	for _, x := range answer.Impact {
		if x.Area != area {
			continue
		}
		if !x.Computed || x.Count != len(x.First) || x.Checked < x.Count {
			t.Fatalf("%+v", x)
		}
		said := map[string]prediction{}
		for _, who := range x.First {
			said[who.What] = who
		}
		return said
	}
	t.Fatalf("nothing about %s: %+v", area, answer)
	return nil
}

// flow returns a random connection.
func (c *impactCase) flow() *flow {
	f := &flow{from: pick(c, lab.Wan, lab.Lan), proto: pick(c, "tcp", "tcp", "udp", "udp", "icmp"), port: pick(c, 7001, 7002, 7003)}
	if f.proto == "udp" && c.random.IntN(2) == 0 {
		f.port = deaf
	}
	if f.from == lab.Wan {
		f.addr = pick(c, gwWan4, gwWan6, spareWan4, gwLan4, lan4, lan6, lan4)
	} else {
		f.addr = pick(c, gwLan4, gwLan6, spareLan4, gwWan4, wan4, wan6, wan4, far, far, far)
	}
	if f.addr == far { // only these show the router
		f.proto, f.port = pick(c, "udp", "icmp"), deaf
	}
	return f
}

// rule is a rule that is about some of the flows.
func (c *impactCase) rule(t *testing.T, actions ...string) fields {
	t.Helper()
	body := fields{
		"name": fmt.Sprint("rule ", c.random.Uint32()), "src_zone": pick(c, "any", "wan", "lan"), "dst_zone": pick(c, "any", "any", "self", "wan", "lan"),
		"action": pick(c, actions...), "priority": c.random.IntN(100),
	}
	switch c.random.IntN(4) {
	case 0:
		body["service_object_id"] = c.service(t, pick(c, "tcp", "udp", "tcp+udp"), 7001, pick(c, 7001, 7002))
	case 1:
		body["service_object_id"] = c.service(t, pick(c, "udp", "icmp", "icmpv6", "tcp"))
	}
	switch c.random.IntN(4) {
	case 0:
		body["src_kind"], body["src_cidr"] = "cidr", pick(c, "10.10.0.0/24", wan4+"/32", "fd00:10::/64", "2001:db8:1::/64")
	case 1:
		body["dst_kind"], body["dst_cidr"] = "cidr", pick(c, gwWan4+"/32", lan4+"/32", wan4+"/32", lan6+"/128", "198.51.100.64/26")
	}
	return body
}

// translation is a NAT rule that matches some of the flows. No packet is sent back to its origin.
func (c *impactCase) translation() fields {
	body := fields{"name": fmt.Sprint("nat ", c.random.Uint32()), "in_zone": "any", "out_zone": "any", "priority": c.random.IntN(100)}
	switch c.random.IntN(4) {
	case 0:
		body["kind"], body["protocol"], body["out_zone"] = "masquerade", "any", pick(c, "wan", "lan")
	case 1:
		out := pick(c, "wan", "lan")
		body["kind"], body["protocol"], body["out_zone"], body["target_address"] = "snat", "any", out, map[string]string{"wan": gwWan4, "lan": gwLan4}[out]
	default:
		in := pick(c, "wan", "lan")
		body["kind"], body["protocol"], body["in_zone"] = "dnat", pick(c, "tcp", "udp", "tcp+udp"), in
		body["dst_port"], body["target_port"] = pick(c, 7001, 7002), pick(c, 7001, 7003, 7004)
		body["target_address"] = map[string][]string{"wan": {lan4, lan6, gwLan4}, "lan": {wan4, wan6, gwWan4}}[in][c.random.IntN(3)]
	}
	return body
}

// configuration is the configuration before the change: most of the flows are accepted.
func (c *impactCase) configuration(t *testing.T) (operations []operation) {
	t.Helper()
	for range 3 + c.random.IntN(6) {
		operations = append(operations, create("firewall.rule", c.rule(t, "accept", "accept", "accept", "drop", "reject")))
	}
	for range c.random.IntN(4) {
		operations = append(operations, create("firewall.nat-rule", c.translation()))
	}
	for n := range 1 + c.random.IntN(2) {
		operations = append(operations, create("network.route", fields{"destination": "203.0.113.0/24", "gateway": pick(c, routers...), "metric": 10 + 10*n}))
	}
	if c.random.IntN(2) == 0 {
		operations = append(operations, create("network.route", fields{"destination": far + "/32", "gateway": pick(c, routers...)}))
	}
	return append(operations, create("firewall.rule", fields{"name": "the rest", "src_zone": "any", "dst_zone": "any", "action": "accept", "priority": 1000}))
}

// changes is a change set of some kinds of changes.
func (c *impactCase) changes(t *testing.T, present []operation) (operations []operation) {
	t.Helper()
	touched := map[string]bool{}
	for range 1 + c.random.IntN(4) {
		row := pick(c, present...)
		edit := operation{Kind: row.Kind, Verb: "update", ID: row.ID}
		address := pick(c, spareWan4, spareLan4)
		switch c.random.IntN(9) {
		case 0:
			operations = append(operations, create("firewall.rule", c.rule(t, "drop", "reject", "accept")))
			continue
		case 1:
			operations = append(operations, create("firewall.nat-rule", c.translation()))
			continue
		case 2:
			if id := c.spare[address]; id != "" {
				operations = append(operations, operation{Kind: "network.ip-address", Verb: "delete", ID: id})
				delete(c.spare, address)
			}
			continue
		case 3:
			if !touched["narrow"] {
				touched["narrow"] = true
				operations = append(operations, create("network.route", fields{"destination": "203.0.113.0/28", "gateway": pick(c, routers...)}))
			}
			continue
		case 4: // an existing route
			routes := slices.DeleteFunc(slices.Clone(present), func(o operation) bool { return o.Kind != "network.route" })
			edit.Kind, edit.ID = "network.route", pick(c, routes...).ID
			switch c.random.IntN(4) {
			case 0:
				edit.Verb = "delete"
			case 1:
				edit.Body = fields{"active": false}
			default:
				edit.Body = fields{"gateway": pick(c, routers...)}
			}
		case 5:
			edit.Verb = "delete"
		case 6:
			edit.Body = off(row)
		case 7:
			if edit.Body = (fields{"priority": c.random.IntN(1100)}); row.Kind == "network.route" {
				edit.Body = fields{"metric": 30 + len(operations)}
			}
		default:
			if edit.Body = (fields{"action": pick(c, "accept", "drop", "reject")}); row.Kind != "firewall.rule" {
				edit.Body = off(row)
			}
		}
		if !touched[edit.ID] {
			touched[edit.ID] = true
			operations = append(operations, edit)
		}
	}
	if len(operations) == 0 {
		return c.changes(t, present)
	}
	return operations
}

// off switches a row off.
func off(row operation) fields {
	if row.Kind == "network.route" {
		return fields{"active": false}
	}
	return fields{"enabled": false}
}

// restore restores the addresses that the change has removed, and removes the routes.
func (c *impactCase) restore(t *testing.T) {
	t.Helper()
	var routes []struct{ ID, Destination string }
	c.Must(t, http.MethodGet, "/routes", nil, 200, &routes)
	for _, route := range routes {
		if strings.HasPrefix(route.Destination, "203.0.113.") {
			c.Must(t, http.MethodDelete, "/routes/"+route.ID, nil, 200, nil)
		}
	}
	for address, link := range map[string]string{spareWan4: "wan0", spareLan4: "lan0"} {
		if c.spare[address] == "" {
			c.spare[address] = c.address(t, link, address, 24)
		}
	}
}
