// Command attacker plays a gateway-api that an attacker has taken over: it tries everything that gateway-helper must refuse, and prints
// what was not refused. With arguments, it submits mutated files instead, see change.go.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
	"edge.internal/gateway/internal/kit/host/helper"
	"edge.internal/gateway/internal/kit/host/helper/guard/hostile"
	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/value"
)

var (
	helpers = helper.New(nil, host.HelperSocket)
	ctx     = context.Background()
	asked   int
)

// refused records an attempt that must fail.
func refused(err error, what string, args ...any) {
	asked++
	if err == nil {
		fmt.Printf("taken: "+what+"\n", args...)
	}
}

// notForTheGateway is in the helper's error about a file that no renderer writes.
const notForTheGateway = "has content that the gateway does not write"

// refusedAsHostile records an attempt that must fail because of the file, before anything else reads it.
func refusedAsHostile(err error, what string, args ...any) {
	refused(err, what, args...)
	if err != nil && !strings.Contains(err.Error(), notForTheGateway) {
		fmt.Printf("taken: "+what+": %v\n", append(args, err)...)
	}
}

func main() {
	if len(os.Args) > 1 {
		if err := change(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	places()
	contents()
	units()
	commands()
	network()
	leaseServer()
	garbage()
	fmt.Printf("%d attempts\n", asked)
}

// names are in no closed list.
var names = []string{
	"", ".", "..", "/", "x", "../../etc/passwd", "/etc/shadow", "/etc/cron.d/x", "haproxy.config/../../../cron.d/x", "haproxy.config\x00", "HAPROXY.CONFIG", " haproxy.config",
	string(haproxy.Certificate(uuid.Nil)) + "/../../../../cron.d/x", strings.Replace(string(haproxy.Certificate(uuid.Nil)), uuid.Nil.String(), "../../../cron.d/x", 1),
	string(wireguard.State(value.Must[value.IfName]("a"))) + "/../../../../etc/cron.d/x", strings.TrimSuffix(string(wireguard.State(value.Must[value.IfName]("a"))), "a") + "../../../etc/cron.d/x",
}

func places() {
	for _, n := range names {
		p := host.Place(n)
		content, err := helpers.Read(p)
		refused(err, "reading %q: %q", n, content)
		refused(helpers.Install(p, []byte("* * * * * root id\n")), "installing %q", n)
		refused(helpers.Amend(p, parts.Change{}), "changing %q", n)
		refused(helpers.Remove(p), "removing %q", n)
		content, err = helpers.ReadLog(host.Log(n), 1<<20)
		refused(err, "reading the log %q: %q", n, content)
		refused(helpers.TrimLog(host.Log(n)), "trimming the log %q", n)
		file := host.File{Place: p, Content: []byte("x")}
		_, err = helpers.Run(ctx, chrony.Check, host.Input{Staged: []host.File{file}})
		refused(err, "staging %q", n)
		_, err = helpers.FilterDigestOf(ctx, file)
		refused(err, "loading %q", n)
	}
}

// contents would have a daemon run, load or read something.
func contents() {
	for _, f := range hostile.Files() {
		refusedAsHostile(helpers.Install(f.Place, f.Content), "installing %s: %q", f.Place, f.Content)
		part := parts.Change{Add: []parts.Addition{{Before: 1, Text: f.Content}}}
		refused(helpers.Amend(f.Place, part), "changing %s: %q", f.Place, f.Content)
		refusedAsHostile(helpers.Amend(nftables.Table, part), "changing the packet filter: %q", f.Content)
		for _, c := range known {
			_, err := helpers.Run(ctx, c, host.Input{Staged: []host.File{f}})
			refusedAsHostile(err, "%s with %s: %q", c, f.Place, f.Content)
		}
	}
	refused(helpers.Install(haproxy.Hosts, make([]byte, 65<<20)), "a file without end")
}

func units() {
	for _, n := range append(names, "ssh", "ssh.service", "cron", "systemd-journald", "dbus.service", "gateway-api.service", "gateway-wireguard@x", "gateway-upgrade", "--root=/", "haproxy.service") {
		u := host.Unit(n)
		refused(helpers.Start(ctx, u), "starting %q", n)
		refused(helpers.Stop(ctx, u), "stopping %q", n)
		refused(helpers.Restart(ctx, u), "restarting %q", n)
		refused(helpers.Reload(ctx, u), "reloading %q", n)
		refused(helpers.Enable(ctx, u, true), "enabling %q", n)
		refused(helpers.Enable(ctx, u, false), "disabling %q", n)
	}
}

// known are commands of the list that take files.
var known = []host.Command{
	chrony.Check, nftables.Check, nftables.Load, haproxy.Check, unbound.Check, squid.Check, kea.Check, freeradius.Check, keepalived.Check,
}

func commands() {
	for _, n := range append(names, "sh", "/bin/sh", "nft", "nft.load ", "chrony.check;id", "$(id)") {
		_, err := helpers.Run(ctx, host.Command(n), host.Input{})
		refused(err, "running %q", n)
	}
	for _, c := range append(known, haproxy.Version, wireguard.Go) {
		for _, args := range [][]string{{"-c", "id"}, {"--version"}, {"-f"}, {";id"}, {"$(id)"}, {"../x"}, {"a b"}, {"/etc/shadow"}} {
			_, err := helpers.Run(ctx, c, host.Input{Args: args})
			refused(err, "%s %q", c, args)
		}
	}
}

func network() {
	for _, n := range []string{"", "..", "a/b", "../x", "a b", "-f", "x;id", "$(id)", strings.Repeat("a", 16)} {
		refused(helpers.CreateTunnel(ctx, n, ""), "making the tunnel %q", n)
	}
	for _, address := range []string{":22", ":443", ":80", ":1023", ":1024", ":5432", ":7000", "127.0.0.1:3443", ":0", "x", ""} {
		for _, network := range []string{"tcp", "tcp4", "udp", "unix", "ip"} {
			f, err := helpers.Listen(ctx, network, address)
			refused(err, "listening on %s %s", network, address)
			if f != nil {
				f.Close()
			}
		}
	}
	for _, n := range []string{"udp", "unix"} {
		_, err := helpers.Listen(ctx, n, ":7000")
		refused(err, "listening on %s", n)
	}
}

func leaseServer() {
	for _, c := range append(names, "config-set", "config-write", "config-test", "shutdown", "libreload", "lease4-wipe") {
		_, err := helpers.LeaseServerAsk(ctx, kea.Command(c), json.RawMessage(`{"filename": "/etc/cron.d/x"}`))
		refused(err, "asking Kea for %q", c)
	}
}

// garbage is not even a question.
func garbage() {
	for _, n := range []int{1, 64, 1 << 20} {
		conn, err := net.Dial("unix", host.HelperSocket)
		if err != nil {
			fmt.Println("the helper is gone:", err)
			os.Exit(1)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		noise := make([]byte, n)
		_, _ = rand.Read(noise)
		_, _ = conn.Write(noise)
		conn.Close()
		asked++
	}
}
