//go:build vm

// Command guest is the part of the bench that runs in a virtual machine: it loads tables of the packet filter, one after
// the other, has pktgen push packets through each, and prints how many a second of the machine's clock were forwarded.
//
// The machine is a router with five interfaces, zone0 to zone4, that are dummies: pktgen hands its packets to the
// receive path of zone0 as a driver would, and zone1 loses what leaves by it. So a packet costs what pktgen needs to
// make it, its way through the router, and nothing of a sender's or receiver's stack.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

const (
	links  = 5
	client = "10.200.0.1"
	server = "10.201.0.1"
	// Each port of the client is a flow. No rule matches the server's port.
	firstPort, lastPort, serverPort = 1024, 65000, 9
)

// Each argument is file:new:established: a table, and how many packets of either kind to push through it.
func main() {
	fail(setUp())
	for _, arg := range os.Args[1:] {
		parts := strings.Split(arg, ":")
		fresh, err := strconv.Atoi(parts[1])
		fail(err)
		known, err := strconv.Atoi(parts[2])
		fail(err)
		fail(run("nft", "-f", filepath.Join("/data", parts[0])))
		// The first round is for the caches of the kernel, and a tenth of the others.
		for _, n := range []int{fresh/10 + 1, fresh, fresh} {
			rate, err := newFlows(n)
			fail(err)
			if n == fresh {
				fmt.Println(parts[0], "new", rate)
			}
		}
		for _, n := range []int{known/10 + 1, known, known} {
			rate, err := oneFlow(n)
			fail(err)
			if n == known {
				fmt.Println(parts[0], "established", rate)
			}
		}
		fail(run("nft", "flush", "ruleset"))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func run(program string, args ...string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

func name(link int) string { return fmt.Sprintf("zone%d", link) }
func mac(link int) string  { return fmt.Sprintf("02:00:00:00:00:%02d", link) }

func setUp() error {
	// Without IPv6 the links are silent: what leaves by them is what was pushed.
	commands := []string{"modprobe pktgen", "modprobe nf_conntrack", "sysctl -w net.ipv6.conf.default.disable_ipv6=1"}
	for i := range links {
		commands = append(commands, fmt.Sprintf("ip link add %s address %s up type dummy", name(i), mac(i)))
	}
	commands = append(commands, "ip route add 10.200.0.0/16 dev "+name(0), "ip route add 10.201.0.0/16 dev "+name(1),
		"sysctl -w net.ipv4.ip_forward=1", "sysctl -w net.netfilter.nf_conntrack_max=262144")
	for _, c := range commands {
		words := strings.Fields(c)
		if err := run(words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// newFlows pushes n packets, each the first of its flow, and answers the rate.
func newFlows(n int) (float64, error) {
	if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return 0, err
	}
	rate, err := push(0, 1, n, client, server, [2]int{firstPort, lastPort}, [2]int{serverPort, serverPort})
	if err != nil {
		return 0, err
	}
	return rate, wantFlows(n)
}

// oneFlow pushes n packets of a flow that both sides have spoken in, and answers the rate.
func oneFlow(n int) (float64, error) {
	if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return 0, err
	}
	there, back := [2]int{firstPort, firstPort}, [2]int{serverPort, serverPort}
	if _, err := push(0, 1, 1, client, server, there, back); err != nil {
		return 0, err
	}
	// No rule lets this one pass but that for established flows.
	if _, err := push(1, 0, 1, server, client, back, there); err != nil {
		return 0, err
	}
	rate, err := push(0, 1, n, client, server, there, back)
	if err != nil {
		return 0, err
	}
	return rate, wantFlows(1)
}

func wantFlows(n int) error {
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(b)); got != strconv.Itoa(n) {
		return fmt.Errorf("%s flows instead of %d", got, n)
	}
	return nil
}

var result = regexp.MustCompile(`Result: OK: (\d+)\(`)

// push sends n packets in by one interface, checks that all leave by another, and returns their rate.
func push(in, out, n int, src, dst string, srcPorts, dstPorts [2]int) (float64, error) {
	const folder = "/proc/net/pktgen/"
	settings := [][2]string{{"kpktgend_0", "rem_device_all"}, {"kpktgend_0", "add_device " + name(in)}}
	for _, s := range []string{
		"xmit_mode netif_receive", "flag NO_TIMESTAMP", "delay 0", "pkt_size 60", fmt.Sprintf("count %d", n), "dst_mac " + mac(in),
		"src_min " + src, "src_max " + src, "dst " + dst,
		fmt.Sprintf("udp_src_min %d", srcPorts[0]), fmt.Sprintf("udp_src_max %d", srcPorts[1]),
		fmt.Sprintf("udp_dst_min %d", dstPorts[0]), fmt.Sprintf("udp_dst_max %d", dstPorts[1]),
	} {
		settings = append(settings, [2]string{name(in), s})
	}
	for _, s := range settings {
		if err := os.WriteFile(folder+s[0], []byte(s[1]+"\n"), 0); err != nil {
			return 0, fmt.Errorf("pktgen: %s: %w", s[1], err)
		}
	}
	before, err := left(out)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(folder+"pgctrl", []byte("start\n"), 0); err != nil { // returns when all are sent
		return 0, err
	}
	after, err := left(out)
	if err != nil {
		return 0, err
	}
	if after-before != n {
		return 0, fmt.Errorf("%d of %d packets were forwarded", after-before, n)
	}
	b, err := os.ReadFile(folder + name(in))
	if err != nil {
		return 0, err
	}
	match := result.FindSubmatch(b)
	if match == nil {
		return 0, fmt.Errorf("pktgen: %s", b)
	}
	took, err := strconv.Atoi(string(match[1]))
	return float64(n) / float64(took) * 1e6, err
}

// left is how many packets have left by a link.
func left(link int) (int, error) {
	b, err := os.ReadFile("/sys/class/net/" + name(link) + "/statistics/tx_packets")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
