package machine

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// The machines of the wan side.
const (
	atSSH     = "198.51.100.66"
	atWAF     = "198.51.100.67"
	atPorts   = "198.51.100.68"
	atWAF6    = "2001:db8:1::67"
	innocent  = "198.51.100.69"
	friend    = "198.51.100.97" // on the allow-list
	atConsole = "198.51.100.99" // where an administrator is logged in
)

// published is a port of the gateway that is forwarded to a machine of the lan.
const published = 8081

// idsRig is a lab whose CrowdSec reads logs.
type idsRig struct{ *labtest.Lab }

// TestIDS lets a real CrowdSec read the traces of attackers in logs, and checks with packets which addresses are dropped.
func TestIDS(t *testing.T) {
	t.Parallel()
	r := idsRig{labtest.UpAsAdmin(t, lab.Options{Volatile: true})}
	for _, a := range []string{atSSH + "/24", atWAF + "/24", atPorts + "/24", innocent + "/24", friend + "/24", atConsole + "/24", atWAF6 + "/64"} {
		argv := []string{"ip", "addr", "add", a, "dev", "eth0"}
		if strings.Contains(a, ":") {
			argv = append(argv, "nodad")
		}
		r.Run(t, lab.Wan, argv...)
	}
	r.WaitState(t, "ids", "live", 20*time.Second)
	r.WaitState(t, "packet-filter", "live", 20*time.Second)
	r.WaitState(t, "reverse-proxy", "live", 20*time.Second)
	if out := r.Run(t, lab.Gateway, "nft", "list", "tables"); strings.Contains(out, "crowdsec") {
		t.Fatalf("a bouncer runs that is not enabled:\n%s", out)
	}
	// A machine of the lan is published: a banned client can reach neither it nor the gateway itself.
	packets := &rig{Lab: r.Lab, services: map[string]string{}}
	packets.adopt(t)
	packets.listen(t, lab.Lan, ":7001", func(netip.AddrPort) string { return "hello\n" })
	packets.nat(t,
		fields{"kind": "dnat", "in_zone": "wan", "dst_port": published, "target_address": lan4, "target_port": 7001},
		fields{"kind": "dnat", "in_zone": "wan", "dst_port": published, "target_address": lan6, "target_port": 7001})
	for _, a := range []string{atSSH, atWAF, atPorts, innocent, friend, atConsole, atWAF6} {
		r.served(t, a)
	}
	filter := r.component(t, "packet-filter")
	r.Must(t, http.MethodPut, "/ids/settings", fields{
		"enabled": true, "sources": fields{"packet_filter": true}, "allow_list": []fields{{"cidr": "198.51.100.96/31", "note": "the \"office\""}},
	}, 200, nil)
	r.WaitState(t, "ids", "live", 60*time.Second)
	r.running(t)

	t.Run("FailedLoginsAreDropped", func(t *testing.T) { idsSSH(t, r) })
	t.Run("WAFBlocksAreDropped", func(t *testing.T) { idsWAF(t, r) })
	t.Run("PortScanIsDropped", func(t *testing.T) { idsScan(t, r) })
	t.Run("AllowListIsNeverBanned", func(t *testing.T) { idsAllowed(t, r) })
	t.Run("OperatorIsNotBanned", func(t *testing.T) { idsOperator(t, r) })
	t.Run("ManualBanAndUnban", func(t *testing.T) { idsManual(t, r) })
	t.Run("OwnTableIsNoDrift", func(t *testing.T) {
		if now := r.component(t, "packet-filter"); now != filter {
			t.Errorf("the packet filter was applied again: %s, before %s", now, filter)
		}
	})
	t.Run("BansOutliveTheTable", func(t *testing.T) { idsReload(t, r) })
	t.Run("UnbanOnTheBox", func(t *testing.T) { idsUnban(t, r) })
	t.Run("AccountsAndCollections", func(t *testing.T) { idsAccounts(t, r) })
	t.Run("KilledDaemonsComeBack", func(t *testing.T) { idsKilled(t, r) })
	t.Run("SwitchedOffDropsNobody", func(t *testing.T) { idsOff(t, r) })
}

// running waits until CrowdSec reads logs, and the bouncer has created its tables. Earlier lines are lost.
func (r idsRig) running(t *testing.T) {
	t.Helper()
	waittest.Within(t, 4*time.Minute, "CrowdSec reads logs, and its bouncer runs", func() error {
		said, err := os.ReadFile(r.Log(crowdsec.Unit))
		if err != nil {
			return err
		}
		text := string(said)
		last := text[max(0, strings.LastIndex(text, "Crowdsec v")):]
		if s := r.status(t); !strings.Contains(last, "Starting processing data") || s.FirewallBouncer.State != "running" {
			return fmt.Errorf("%+v\n%s", s, last)
		}
		return nil
	})
	waittest.Until(t, "the bouncer's table", func() bool {
		return strings.Contains(r.Run(t, lab.Gateway, "nft", "list", "tables"), "table ip crowdsec")
	})
}

type idsStatus struct {
	Agent           struct{ State string }
	FirewallBouncer struct{ State string } `json:"firewall_bouncer"`
	Decisions       int
	Error           string
}

func (r idsRig) status(t *testing.T) (s idsStatus) {
	t.Helper()
	r.Must(t, http.MethodGet, "/ids/status", nil, 200, &s)
	return s
}

// component returns when a component was last applied, and its state.
func (r idsRig) component(t *testing.T, name string) string {
	t.Helper()
	var list []struct {
		Name, State   string
		LastAppliedAt string `json:"last_applied_at"`
	}
	r.Must(t, http.MethodGet, "/system/components", nil, 200, &list)
	for _, c := range list {
		if c.Name == name {
			return c.State + " since " + c.LastAppliedAt
		}
	}
	t.Fatalf("no component %s", name)
	return ""
}

// idsPorts are those of the gateway's reverse proxy and of the machine of the lan.
var idsPorts = []int{80, published}

// asks connects to a port of the gateway from an address of the wan side.
func (r idsRig) asks(from string, port int, wait time.Duration) error {
	to := gwWan4
	if strings.Contains(from, ":") {
		to = gwWan6
	}
	return r.Within(lab.Wan, func() error {
		d := net.Dialer{Timeout: wait, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.Dial("tcp", net.JoinHostPort(to, fmt.Sprint(port)))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// served waits until an address gets through, to the gateway and to the machine behind it.
func (r idsRig) served(t *testing.T, from string) {
	t.Helper()
	for _, port := range idsPorts {
		waittest.UntilNil(t, fmt.Sprintf("%s is served at port %d", from, port), func() error { return r.asks(from, port, 2*time.Second) })
	}
}

// dropped waits until all packets of an address are dropped: it gets no answer, not even a reset.
func (r idsRig) dropped(t *testing.T, from string) {
	t.Helper()
	for _, port := range idsPorts {
		waittest.UntilNil(t, fmt.Sprintf("%s is dropped at port %d", from, port), func() error {
			err := r.asks(from, port, time.Second)
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				return nil
			}
			return fmt.Errorf("it hears something: %v", err)
		})
	}
	family, table, set := "ip", "crowdsec", "crowdsec-blacklists"
	if strings.Contains(from, ":") {
		family, table, set = "ip6", "crowdsec6", "crowdsec6-blacklists"
	}
	if out := r.Run(t, lab.Gateway, "nft", "list", "set", family, table, set); !strings.Contains(out, from) {
		t.Errorf("%s is not in the kernel's set:\n%s", from, out)
	}
}

// write adds lines to a log of the gateway.
func (r idsRig) write(t *testing.T, path string, lines ...string) {
	t.Helper()
	r.Run(t, lab.Gateway, "sh", "-c", `printf '%s\n' "$@" >> `+path, "sh", strings.Join(lines, "\n"))
}

// failLogins is what sshd leaves of eight failed logins.
func (r idsRig) failLogins(t *testing.T, from, program string) {
	t.Helper()
	var lines []string
	for i := range 8 {
		lines = append(lines, fmt.Sprintf("%s gateway %s[%d]: Failed password for root from %s port %d ssh2", time.Now().Format(time.Stamp), program, 4000+i, from, 40000+i))
	}
	r.write(t, crowdsec.AuthLog, lines...)
}

// block is what the web application firewall leaves of requests.
func (r idsRig) block(t *testing.T, from, action string, requests ...string) {
	t.Helper()
	var lines []string
	for _, id := range requests {
		lines = append(lines, fmt.Sprintf(`{"time":%q,"client":%q,"action":%q,"id":%q,"domain":"shop.example.net","rule":"942100"}`, time.Now().UTC().Format(time.RFC3339Nano), from, action, id))
	}
	r.write(t, crowdsec.WAFLog, lines...)
}

type idsDecision struct {
	ID                    int64
	Value, Origin, Reason string
	Enforced              bool
}

// decided are the decisions about an address.
func (r idsRig) decided(t *testing.T, address string) []idsDecision {
	t.Helper()
	var list struct {
		Decisions []idsDecision
		Error     string
	}
	r.Must(t, http.MethodGet, "/ids/decisions?search="+address, nil, 200, &list)
	if list.Error != "" {
		t.Fatal(list.Error)
	}
	return list.Decisions
}

func idsSSH(t *testing.T, r idsRig) {
	r.failLogins(t, atSSH, "sshd")
	r.dropped(t, atSSH)
	list := r.decided(t, atSSH)
	if len(list) == 0 || list[0].Origin != "crowdsec" || !strings.HasPrefix(list[0].Reason, "crowdsecurity/ssh-") || !list[0].Enforced {
		t.Fatalf("%+v", list)
	}
	var alerts struct {
		Alerts []struct {
			ID       int64
			Scenario string
			Decided  int `json:"decisions_count"`
		}
	}
	r.Must(t, http.MethodGet, "/ids/alerts?address="+atSSH, nil, 200, &alerts)
	if len(alerts.Alerts) == 0 {
		t.Fatal("no alert")
	}
	var details struct {
		Events    []struct{ Meta map[string]string }
		Decisions []idsDecision
	}
	r.Must(t, http.MethodGet, fmt.Sprintf("/ids/alerts/%d", alerts.Alerts[0].ID), nil, 200, &details)
	if len(details.Events) == 0 || details.Events[0].Meta["source_ip"] != atSSH || len(details.Decisions) == 0 {
		t.Errorf("%+v", details)
	}
	r.served(t, innocent)
}

// idsWAF: five blocked requests are an attack. Four are not, nor is one request that breaks many rules, nor what was only noticed.
func idsWAF(t *testing.T, r idsRig) {
	r.block(t, innocent, "blocked", "a1", "a2", "a3", "a4")
	r.block(t, innocent, "blocked", "a4", "a4", "a4", "a4", "a4", "a4")
	r.block(t, innocent, "detected", "b1", "b2", "b3", "b4", "b5", "b6")
	r.block(t, atWAF, "blocked", "c1", "c2", "c3", "c4", "c5")
	r.block(t, atWAF6, "blocked", "d1", "d2", "d3", "d4", "d5")
	r.dropped(t, atWAF)
	r.dropped(t, atWAF6)
	if list := r.decided(t, atWAF); len(list) != 1 || list[0].Reason != "gateway/waf-blocks" {
		t.Errorf("%+v", list)
	}
	if list := r.decided(t, innocent); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	r.served(t, innocent)
}

// idsScan tries ports that are closed, until that is noticed: what the packet filter logs is limited.
func idsScan(t *testing.T, r idsRig) {
	port := 20000
	waittest.Within(t, 4*time.Minute, "a scan is noticed", func() error {
		err := r.Within(lab.Wan, func() error {
			conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(atPorts)}, &net.UDPAddr{IP: net.ParseIP(gwWan4), Port: port})
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte("hello"))
			return err
		})
		if port++; port%50 != 0 || len(r.decided(t, atPorts)) == 0 {
			return fmt.Errorf("port %d was tried last (%v)", port-1, err)
		}
		return nil
	})
	r.dropped(t, atPorts)
}

func idsAllowed(t *testing.T, r idsRig) {
	r.failLogins(t, friend, "sshd")
	r.block(t, friend, "blocked", "f1", "f2", "f3", "f4", "f5", "f6")
	// Later lines of a log are read later: once there is a decision about them, the friend was not banned.
	const laterLogin, laterRequest = "198.51.100.70", "198.51.100.71"
	r.failLogins(t, laterLogin, "sshd-session")
	r.block(t, laterRequest, "blocked", "g1", "g2", "g3", "g4", "g5")
	for _, a := range []string{laterLogin, laterRequest} {
		waittest.Until(t, "a decision about "+a, func() bool { return len(r.decided(t, a)) > 0 })
	}
	if list := r.decided(t, friend); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	r.served(t, friend)
	a := r.Must(t, http.MethodPost, "/ids/decisions", fields{"value": friend, "confirm": true}, 400, nil)
	if !strings.Contains(string(a.Body), "allow-list") {
		t.Errorf("%s", a.Body)
	}
}

// browser is a browser at an address of the wan side.
func (r idsRig) browser(t *testing.T, from string) *labtest.Browser {
	t.Helper()
	return labtest.NewBrowser(t, "https://"+gwWan4+":3443", func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = r.Within(lab.Wan, func() error {
			d := net.Dialer{Timeout: 20 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			conn, err = d.DialContext(ctx, network, address)
			return err
		})
		return conn, err
	})
}

// undone counts the bans that were ended.
func (r idsRig) undone(t *testing.T, address string) (n int) {
	t.Helper()
	var entries []struct{ Actor, Subject string }
	r.Must(t, http.MethodGet, "/audit?action=ids.decision.undo", nil, 200, &entries)
	for _, e := range entries {
		if e.Subject == address && e.Actor == "gateway-api" {
			n++
		}
	}
	return n
}

// set changes the bouncer's set of banned addresses without its knowledge.
func (r idsRig) set(t *testing.T, verb, address string) {
	t.Helper()
	r.Run(t, lab.Gateway, "nft", verb, "element", "ip", crowdsec.Table4, crowdsec.Set4, "{ "+address+" }")
}

// idsOperator: packets of an administrator who is logged in are not dropped, whatever the bouncer was told, and a ban of that address is
// ended. A decision of an operator is applied.
func idsOperator(t *testing.T, r idsRig) {
	b := r.browser(t, atConsole)
	b.Login(t)
	spared := func() {
		t.Helper()
		waittest.Until(t, "the administrator is spared", func() bool {
			return strings.Contains(r.Run(t, lab.Gateway, "nft", "list", "set", "ip", crowdsec.Table4, crowdsec.SparedSet), atConsole)
		})
	}
	spared()
	for _, a := range []string{atConsole, innocent} {
		r.set(t, "add", a)
	}
	r.dropped(t, innocent)
	r.served(t, atConsole)
	for _, a := range []string{atConsole, innocent} {
		r.set(t, "delete", a)
	}
	r.served(t, innocent)

	r.failLogins(t, atConsole, "sshd")
	waittest.Until(t, "the operator's ban is undone", func() bool { return r.undone(t, atConsole) > 0 && len(r.decided(t, atConsole)) == 0 })
	r.served(t, atConsole)
	b.Must(t, http.MethodGet, "/ids/status", nil, 200, nil)

	// A manual ban requires a confirmation: from that address, and from others. Then it is dropped.
	for _, from := range []*labtest.Browser{b, r.Browser} {
		if a := from.Must(t, http.MethodPost, "/ids/decisions", fields{"value": atConsole}, 409, nil); !strings.Contains(string(a.Body), "confirm") {
			t.Errorf("%s", a.Body)
		}
	}
	var made idsDecision
	r.Must(t, http.MethodPost, "/ids/decisions", fields{"value": atConsole, "confirm": true}, 201, &made)
	r.dropped(t, atConsole)
	r.Must(t, http.MethodDelete, fmt.Sprintf("/ids/decisions/%d", made.ID), nil, 200, nil)
	r.served(t, atConsole)
	spared()
	// What root decides with CrowdSec's own tool is an operator's decision, too.
	r.Run(t, lab.Gateway, "cscli", "decisions", "add", "--ip", atConsole, "--duration", "1h")
	r.dropped(t, atConsole)
	r.Run(t, lab.Gateway, "gateway-ctl", "ids-unban", atConsole)
	r.served(t, atConsole)
}

func idsManual(t *testing.T, r idsRig) {
	var made idsDecision
	r.Must(t, http.MethodPost, "/ids/decisions", fields{"value": innocent, "duration": "1h", "reason": "to see what happens"}, 201, &made)
	if made.Origin != "gateway" || made.Reason != "to see what happens" || !made.Enforced {
		t.Errorf("%+v", made)
	}
	r.dropped(t, innocent)
	// The kernel's state is shown, not CrowdSec's.
	r.set(t, "delete", innocent)
	if list := r.decided(t, innocent); len(list) != 1 || list[0].Enforced {
		t.Errorf("%+v", list)
	}
	r.served(t, innocent)
	r.Must(t, http.MethodDelete, fmt.Sprintf("/ids/decisions/%d", made.ID), nil, 200, nil)
	r.Must(t, http.MethodDelete, fmt.Sprintf("/ids/decisions/%d", made.ID), nil, 404, nil)
	for _, d := range r.decided(t, atSSH) {
		r.Must(t, http.MethodDelete, fmt.Sprintf("/ids/decisions/%d", d.ID), nil, 200, nil)
	}
	r.served(t, atSSH)
}

// idsReload: while the gateway's own table is removed and loaded again, no packets of banned addresses pass. If another program removes the
// bans, that is noticed.
func idsReload(t *testing.T, r idsRig) {
	stop := make(chan struct{})
	var work sync.WaitGroup
	var tried, through atomic.Int64
	for _, port := range idsPorts {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if r.asks(atWAF, port, 20*time.Millisecond) == nil {
					through.Add(1)
				}
				tried.Add(1)
			}
		})
	}
	for range 3 {
		r.Run(t, lab.Gateway, "nft", "delete", "table", "inet", "gateway")
		before := tried.Load()
		waittest.Until(t, "the table is back, and something was tried", func() bool {
			return tried.Load() > before+2 && strings.Contains(r.Run(t, lab.Gateway, "nft", "list", "tables"), "table inet gateway")
		})
	}
	close(stop)
	work.Wait()
	if n := through.Load(); n > 0 {
		t.Errorf("%d of %d connections of a banned address got through", n, tried.Load())
	}
	r.Run(t, lab.Gateway, "nft", "flush", "chain", "ip", crowdsec.Table4, crowdsec.BansChain)
	if list := r.decided(t, atWAF); len(list) != 1 || list[0].Enforced {
		t.Errorf("%+v", list)
	}
	r.dropped(t, atWAF)
	waittest.Until(t, "the kernel says so", func() bool { return r.decided(t, atWAF)[0].Enforced })
}

// idsUnban: root ends a ban on the box, also while the API is down.
func idsUnban(t *testing.T, r idsRig) {
	if out := r.Run(t, lab.Gateway, "gateway-ctl", "ids-unban", atWAF6); out != atWAF6+": 1 bans ended\n" {
		t.Errorf("%q", out)
	}
	r.served(t, atWAF6)
	if err := r.Units().Stop(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	if out := r.Run(t, lab.Gateway, "gateway-ctl", "ids-unban", atWAF); out != atWAF+": bans ended\n" {
		t.Errorf("%q", out)
	}
	r.served(t, atWAF)
	if err := r.Units().Start(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	r.WaitDatabase(t)
	r.WaitState(t, "ids", "live", 30*time.Second)
}

func idsAccounts(t *testing.T, r idsRig) {
	var made struct{ Name, Key string }
	r.Must(t, http.MethodPost, "/ids/bouncers", fields{"name": "edge-proxy"}, 201, &made)
	if len(made.Key) < 16 {
		t.Fatalf("%+v", made)
	}
	answer := func() string {
		return r.Run(t, lab.Gateway, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "X-Api-Key: "+made.Key, fmt.Sprintf("http://127.0.0.1:%d/v1/decisions", crowdsec.Port))
	}
	if got := answer(); got != "200" {
		t.Errorf("the key does not work: %s", got)
	}
	r.Must(t, http.MethodPost, "/ids/bouncers", fields{"name": "edge-proxy"}, 409, nil)
	var bouncers struct {
		Bouncers []struct {
			Name     string
			LastPull string `json:"last_pull"`
			Own      bool
		}
		Error string
	}
	r.Must(t, http.MethodGet, "/ids/bouncers", nil, 200, &bouncers)
	seen := map[string]bool{}
	for _, b := range bouncers.Bouncers {
		seen[b.Name] = b.LastPull != ""
	}
	if !seen["gateway-firewall"] || !seen["edge-proxy"] || bouncers.Error != "" {
		t.Errorf("%+v", bouncers)
	}
	r.Must(t, http.MethodDelete, "/ids/bouncers/edge-proxy", nil, 200, nil)
	if got := answer(); got != "403" {
		t.Errorf("the key works still: %s", got)
	}
	var machines struct {
		Machines []struct {
			Name string
			Own  bool
		}
	}
	r.Must(t, http.MethodGet, "/ids/machines", nil, 200, &machines)
	if len(machines.Machines) < 2 {
		t.Errorf("%+v", machines)
	}
	var collections struct {
		Collections []struct{ Name, Status string }
		Error       string
	}
	r.Must(t, http.MethodGet, "/ids/collections", nil, 200, &collections)
	if len(collections.Collections) == 0 || collections.Error != "" {
		t.Errorf("%+v", collections)
	}
}

// idsKilled: both daemons restart, and the bans are restored.
func idsKilled(t *testing.T, r idsRig) {
	for _, u := range []host.Unit{crowdsec.Bouncer, crowdsec.Unit} {
		was, err := r.Units().State(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		r.Run(t, lab.Gateway, "kill", "-9", fmt.Sprint(was.PID))
		another(t, r.Units(), u, was.PID)
	}
	r.WaitState(t, "ids", "live", 60*time.Second)
	r.WaitState(t, "ids-firewall-bouncer", "live", 60*time.Second)
	r.dropped(t, atPorts)
}

func idsOff(t *testing.T, r idsRig) {
	r.Must(t, http.MethodPost, "/system/service-toggle", fields{"service": "ids-firewall-bouncer", "enabled": false}, 200, nil)
	r.served(t, atPorts)
	if s := r.status(t); s.Agent.State != "running" || s.FirewallBouncer.State != "stopped" {
		t.Errorf("%+v", s)
	}
	r.Must(t, http.MethodPost, "/system/service-toggle", fields{"service": "ids-firewall-bouncer", "enabled": true}, 200, nil)
	r.dropped(t, atPorts)
	r.Must(t, http.MethodPost, "/system/service-toggle", fields{"service": "ids-agent", "enabled": false}, 200, nil)
	r.served(t, atPorts)
	if s := r.status(t); s.Agent.State != "stopped" || s.FirewallBouncer.State != "stopped" || s.Error == "" {
		t.Errorf("%+v", s)
	}
	r.WaitState(t, "ids", "live", 20*time.Second)
}
