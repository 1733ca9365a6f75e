package cluster_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// gate is a gateway with its ports: the API, through which nodes join, and the agent listener.
type gate struct {
	*node
	to       *reach
	listener net.Listener
	api      *httptest.Server
	ahead    *ahead
	deps     cluster.Deps
	virtual  atomic.Value // an address that moves between nodes
	shut     func()       // closes its ports
}

// ahead is a clock that may be ahead of the machine's.
type ahead struct {
	clock.Clock
	by atomic.Int64
}

func (a *ahead) Now() time.Time { return a.Clock.Now().Add(time.Duration(a.by.Load())) }

// reach finds the databases of a test's gateways.
type reach struct {
	mu sync.Mutex
	of map[string]string
}

func newGate(t *testing.T, d *db.DB, name string, to *reach) *gate {
	t.Helper()
	me := cluster.Node{ID: uuid.NewString(), Name: name + ".example.net"}
	to.mu.Lock()
	to.of[me.ID] = dbtest.Address(d)
	to.mu.Unlock()
	return gateOf(t, kittest.NewOn(t, d), me, to, nil)
}

// gateOf returns a gateway with a kit, and what its test has mounted on it.
func gateOf(t *testing.T, b *kittest.Bench, me cluster.Node, to *reach, pace *cluster.Pace) *gate {
	t.Helper()
	g := &gate{to: to, node: &node{Bench: b, me: me}}
	g.open(t, "127.0.0.1:0", cluster.Deps{
		Node: func() cluster.Node { return g.me },
		Database: func(m cluster.Member) (string, error) {
			to.mu.Lock()
			defer to.mu.Unlock()
			return to.of[m.ID], nil
		},
		Update: func(ctx context.Context, to string) error {
			return upgrades.Begin(ctx, g.Machine, version{Version: to}, "")
		}, // which nothing grants
		Virtual: func(_ context.Context, address string) (bool, error) { return address == g.virtual.Load(), nil },
		Pace:    pace,
	})
	return g
}

// fakeRepairUnit stands in for systemd: it runs gateway-repair in this process on request. The real one is tested in test/cluster and
// test/appliance.
func (g *gate) fakeRepairUnit(t *testing.T) {
	room := g.room
	g.Machine.LendJob(job.Repair, func() {
		if err := room.GrantRepair(context.Background()); err != nil {
			t.Errorf("the repair cannot be brought to an end: %v", err)
		}
	})
}

// open builds the gateway and opens its ports.
func (g *gate) open(t *testing.T, agents string, deps cluster.Deps) {
	t.Helper()
	b := g.Bench
	g.ahead = &ahead{Clock: clock.Real}
	b.Clock = g.ahead
	g.deps = deps
	var err error
	if g.room, err = cluster.New(b.Kit, deps); err != nil {
		t.Fatal(err)
	}
	g.room.Mount()
	g.fakeRepairUnit(t)
	g.mountKinds()
	b.Start(t)
	waittest.Until(t, "the port is free", func() bool { g.listener, err = net.Listen("tcp", agents); return err == nil })
	g.room.SetAgentPort(g.listener.Addr().(*net.TCPAddr).Port)
	nothing := func() error { return nil }
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- g.room.Agents(ctx, g.listener, func(context.Context) error { return nil }, nothing)
	}()
	g.api = httptest.NewUnstartedServer(b.Handler())
	g.api.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName != cluster.JoinName {
			return nil, nil
		}
		c, _ := g.room.JoinCertificate()
		return c, nil
	}}
	g.api.StartTLS()
	g.shut = sync.OnceFunc(func() {
		g.api.Close()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(g.shut)
}

// gates returns two gateways without a cluster.
func gates(t *testing.T) (one, other *gate) {
	t.Helper()
	return gatesOn(t, dbtest.Server(t))
}

func gatesOn(t *testing.T, s *private.Server) (one, other *gate) {
	t.Helper()
	to := &reach{of: map[string]string{}}
	a, b := dbtest.Pair(t, s)
	return newGate(t, a, "one", to), newGate(t, b, "two", to)
}

// at returns the address of a server for every name.
func at(s *httptest.Server) func(string) string {
	return func(string) string { return s.Listener.Addr().String() }
}

// token makes a gateway expect another one.
func (g *gate) token(t *testing.T, fqdn string) cluster.Token {
	t.Helper()
	var out cluster.Token
	g.Do(t, "admin", http.MethodPost, "/cluster/join-tokens", map[string]any{"node_fqdn": fqdn}).Want(t, 201).Into(t, &out)
	return out
}

// join makes a gateway join the cluster of another one.
func (g *gate) join(t *testing.T, primary *gate, token string) error {
	t.Helper()
	g.room.Manage(at(primary.api))
	return g.room.Join(t.Context(), cluster.Wish{Primary: "one.example.net", Token: token}, func(string) error { return nil })
}

// joined returns a primary and a standby that has joined it the way operators do.
func joined(t *testing.T) (primary, standby *gate) {
	t.Helper()
	primary, standby = gates(t)
	if err := standby.join(t, primary, primary.token(t, standby.me.Name).Token); err != nil {
		t.Fatal(err)
	}
	return primary, standby
}

func (g *gate) members(t *testing.T) map[string]cluster.Member {
	t.Helper()
	list, err := cluster.Members(t.Context(), g.DB)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]cluster.Member{}
	for _, m := range list {
		all[m.ID] = m
	}
	return all
}

func (g *gate) status(t *testing.T) cluster.ClusterStatus {
	t.Helper()
	var s cluster.ClusterStatus
	g.Get(t, "/cluster/status").Want(t, 200).Into(t, &s)
	return s
}

// well waits until these nodes report a healthy cluster.
func well(t *testing.T, nodes ...*gate) {
	t.Helper()
	waittest.UntilNil(t, "the cluster is well", func() error {
		for _, g := range nodes {
			if s := g.status(t); s.Health != "OK" {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
}

// CL-01, CL-10: a joining node goes from pending to joining to online; its placeholder is deleted, its address stays; it has the
// cluster's rows and master key, and follows.
func TestJoin(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	if s := primary.status(t); s.Mode != "single-node" || s.Health != "OK" || len(s.Peers) != 0 || s.DriftFound || s.LocalID != primary.me.ID {
		t.Errorf("%+v", s)
	}
	key, other := standby.Secrets.KeyID(), make([]byte, 32)
	if err := primary.Secrets.Adopt(other); err != nil { // as on another machine
		t.Fatal(err)
	}
	primary.Do(t, "admin", http.MethodPost, "/cluster/join-tokens", `{}`).WantField(t, "node_fqdn")
	primary.Do(t, "admin", http.MethodPost, "/cluster/join-tokens", map[string]any{"node_fqdn": primary.me.Name}).WantField(t, "node_fqdn")
	if err := store(t.Context(), primary.node, "shared.example.net"); err != nil {
		t.Fatal(err)
	}
	token := primary.token(t, standby.me.Name)
	if m := primary.members(t)["prenode-"+standby.me.Name]; m.Status != cluster.Pending || m.PublicIP != "" {
		t.Errorf("%+v", m)
	}
	if s := primary.status(t); s.Mode != "single-node" || s.Health != "OK" || len(s.Peers) != 1 || s.Peers[0].Status != cluster.Pending {
		t.Errorf("%+v", s)
	}
	if err := standby.join(t, primary, token.Token); err != nil {
		t.Fatal(err)
	}
	if standby.Secrets.KeyID() == key || standby.Secrets.KeyID() != primary.Secrets.KeyID() {
		t.Error("the standby has another master key than the cluster")
	}
	if b, err := standby.Machine.Read(host.MasterKey); err != nil || string(b) != string(other) {
		t.Errorf("the key is not kept: %v", err)
	}
	for _, g := range []*gate{primary, standby} {
		all := g.members(t)
		m := all[standby.me.ID]
		if len(all) != 2 || m.FQDN != standby.me.Name || m.PublicIP != "127.0.0.1" || m.InternalIP != "127.0.0.1" || !strings.HasPrefix(m.APIURL, "https://127.0.0.1:") {
			t.Errorf("%+v", all)
		}
	}
	if m := primary.members(t)[standby.me.ID]; m.Status != cluster.Online || m.Version != "1.0.0" {
		t.Errorf("%+v", m)
	}
	if s := standby.state(t); s.Role != cluster.Standby || s.PrimaryID != primary.me.ID || s.Epoch != 1 || !standby.has(t, "shared.example.net") {
		t.Errorf("%+v", s)
	}
	if standby.takes(t, "refused.example.net") || !primary.takes(t, "taken.example.net") {
		t.Error("the wrong node takes changes")
	}
	waittest.Until(t, "the change arrives", func() bool { return standby.has(t, "taken.example.net") })
	for _, g := range []*gate{primary, standby} {
		waittest.Until(t, "the cluster is well", func() bool { s := g.status(t); return s.Health == "OK" && s.Mode == "cluster" && len(s.Peers) == 1 })
		s := g.status(t)
		if s.DriftFound || s.PrimaryID != primary.me.ID || s.Peers[0].Status != cluster.Online || s.Peers[0].ConfigHash != s.LocalNode.ConfigHash || s.Peers[0].SeenAt == nil {
			t.Errorf("%+v", s)
		}
	}
	if text, err := standby.Machine.Read(host.NodeFile); err != nil || string(text) != "NODE_ID="+standby.me.ID+"\nHOSTNAME=two.example.net\nMGMT_IP=127.0.0.1\nROLE=standby\nPEER_HOSTS=one.example.net\n" {
		t.Errorf("%s %v", text, err)
	}
	primary.Do(t, "admin", http.MethodPost, "/cluster/join-tokens", map[string]any{"node_fqdn": standby.me.Name}).WantTaken(t, "node_fqdn")
	primary.token(t, "four.example.net") // an expected node is not a problem, and the standby knows of it
	waittest.Until(t, "the standby knows of a node that is expected", func() bool {
		s := standby.status(t)
		return len(s.Peers) == 2 && s.Peers[0].ID == "prenode-four.example.net" && s.Peers[0].Status == cluster.Pending && s.Health == "OK"
	})
	if a := standby.Do(t, "admin", http.MethodPost, "/cluster/join-tokens", `{"node_fqdn":"three.example.net"}`).Want(t, 503); !strings.Contains(string(a.Body), `"primary":"one.example.net"`) {
		t.Errorf("%s", a.Body)
	}
	if err := standby.join(t, primary, token.Token); err != nil {
		t.Errorf("a join that is complete is not: %v", err)
	}
	if err := primary.join(t, primary, token.Token); err == nil {
		t.Error("the primary joins")
	}
	for _, g := range []*gate{primary, standby} {
		if logs := g.Logs.String(); strings.Contains(logs, token.Token) || strings.Contains(logs, "PRIVATE KEY") {
			t.Error("the log has a secret")
		}
	}
	var audit []byte
	if err := primary.DB.QueryRow(t.Context(), "SELECT string_agg(a::text, '') FROM audit_entries a").Scan(&audit); err != nil || strings.Contains(string(audit), token.Token) {
		t.Errorf("the audit log has the token, %v", err)
	}
}

// CL-02: a token works once, for ten simultaneous attempts as well as for the next one.
func TestTokenIsGoodOnce(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	token := primary.token(t, standby.me.Name)
	won, lost := atomic.Int64{}, atomic.Int64{}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			a := primary.certify(t, token.Token, newRequest(t, standby.me.ID, standby.me.Name))
			switch a.Status {
			case 200:
				won.Add(1)
			case 409:
				lost.Add(1)
			default:
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 9 {
		t.Errorf("%d have got a certificate, %d not", won.Load(), lost.Load())
	}
	primary.certify(t, token.Token, newRequest(t, standby.me.ID, standby.me.Name)).Want(t, 409)
	// The same node with the same key gets its certificate again until it has registered; no other node does.
	again := primary.token(t, standby.me.Name)
	request := newRequest(t, standby.me.ID, standby.me.Name)
	var first, next cluster.Certified
	primary.certify(t, again.Token, request).Want(t, 200).Into(t, &first)
	primary.certify(t, again.Token, request).Want(t, 200).Into(t, &next)
	if first != next {
		t.Error("the second certificate is another one")
	}
	primary.certify(t, again.Token, newRequest(t, standby.me.ID, standby.me.Name)).Want(t, 409)
	if m := primary.members(t)["prenode-"+standby.me.Name]; m.Status != cluster.Joining || m.PublicIP != "192.0.2.7" {
		t.Errorf("%+v", m)
	}
	// A new token invalidates the previous one and its unused certificate.
	second := primary.token(t, standby.me.Name)
	third := primary.token(t, standby.me.Name)
	primary.certify(t, second.Token, newRequest(t, standby.me.ID, standby.me.Name)).Want(t, 409)
	primary.certify(t, third.Token, newRequest(t, standby.me.ID, standby.me.Name)).Want(t, 200)
	for range 8 {
		all.Go(func() { primary.token(t, standby.me.Name) })
	}
	all.Wait()
	if n := primary.Rows(t, "ha_join_tokens"); n != 1 {
		t.Errorf("%d tokens are good", n)
	}
}

// A join whose answer with the certificate is lost continues with the same token.
func TestJoinGoesOnWithoutItsAnswer(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	token := primary.token(t, standby.me.Name)
	lost := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		primary.Handler().ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}))
	lost.TLS = primary.api.TLS.Clone()
	lost.StartTLS()
	defer lost.Close()
	standby.room.Manage(at(lost))
	wish := cluster.Wish{Primary: "one.example.net", Token: token.Token}
	if err := standby.room.Join(t.Context(), wish, func(string) error { return nil }); err == nil {
		t.Fatal("it has joined")
	}
	if n := primary.Audited(t, "cluster.certificate.issue"); n != 1 {
		t.Fatalf("%d certificates", n)
	}
	standby = standby.again(t, "1.0.0")
	if err := standby.join(t, primary, token.Token); err != nil {
		t.Fatal(err)
	}
	well(t, primary)
	if _, err := os.Stat(standby.Paths.State(cluster.Folder + "/joining.pem")); err == nil {
		t.Error("the key is kept twice")
	}
}

// Other nodes use the address by which a node was reached. A virtual address is refused, and the token stays valid.
func TestNobodyJoinsAtAVirtualAddress(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	token, request := primary.token(t, standby.me.Name), newRequest(t, standby.me.ID, standby.me.Name)
	primary.virtual.Store("192.0.2.1")
	a := primary.certify(t, token.Token, request).Want(t, 409)
	if !strings.Contains(string(a.Body), "192.0.2.1") || !strings.Contains(string(a.Body), primary.me.Name) {
		t.Errorf("it says %s", a.Body)
	}
	primary.virtual.Store("192.0.2.2")
	primary.certify(t, token.Token, request).Want(t, 200)
}

// certify requests a certificate from another machine.
func (g *gate) certify(t *testing.T, token, csr string) *kittest.Answer {
	t.Helper()
	return g.certifyFrom(t, "192.0.2.7:4711", token, csr)
}

func (g *gate) certifyFrom(t *testing.T, client, token, csr string) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, g.Handler(), http.MethodPost, "/cluster/certificates", map[string]any{"join_token": token, "csr": csr}, "X-Test-Client", client, "X-Test-Server", "192.0.2.1:3443")
}

// A joining node sends its token only to the cluster that made it.
func TestJoinerPinsTheCluster(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	token := primary.token(t, standby.me.Name)
	asked := atomic.Int64{}
	imposters := map[string]*tls.Config{"a certificate of its own": {}}
	stranger, _ := gates(t)
	stranger.token(t, standby.me.Name) // it has a cluster of its own
	imposters["another cluster"] = stranger.api.TLS
	node := primary.nodeCertificate(t)
	imposters["a node's certificate, which is for no joiner"] = &tls.Config{Certificates: []tls.Certificate{node}}
	join, _ := primary.room.JoinCertificate()
	other := *join
	other.PrivateKey = node.PrivateKey
	imposters["the certificate without its key"] = &tls.Config{Certificates: []tls.Certificate{other}}
	for name, config := range imposters {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
		server.TLS = config
		server.StartTLS()
		standby.room.Manage(at(server))
		err := standby.room.Join(t.Context(), cluster.Wish{Primary: "one.example.net", Token: token.Token}, func(string) error { return nil })
		server.Close()
		if err == nil || asked.Load() != 0 {
			t.Errorf("%s: %v, %d requests", name, err, asked.Load())
		}
	}
	for name, w := range map[string]cluster.Wish{
		"no token":          {Primary: "one.example.net", Token: "nonsense"},
		"other fingerprint": {Primary: "one.example.net", Token: token.Token, Fingerprint: strings.Repeat("ab", 32)},
	} {
		if err := standby.room.Join(t.Context(), w, func(string) error { return nil }); err == nil {
			t.Errorf("joined with %s", name)
		}
	}
	// The right cluster still accepts it, with the fingerprint as people write it.
	standby.room.Manage(at(primary.api))
	pin := token.CAFingerprint
	for i := len(pin) - 2; i > 0; i -= 2 {
		pin = pin[:i] + ":" + pin[i:]
	}
	if err := standby.room.Join(t.Context(), cluster.Wish{Primary: "one.example.net", Token: token.Token, Fingerprint: strings.ToUpper(pin)}, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// carrier is the configuration of a reverse proxy that serves the cluster's certificate for JoinName and its own otherwise, as on a
// gateway.
const carrier = `global
	stats socket %[1]s/run/haproxy/admin.sock
defaults
	mode http
	timeout connect 4s
	timeout client 1m
	timeout server 1m
frontend gateway_management
	bind %[2]s ssl crt-list %[1]s/etc/haproxy/gateway/management.list alpn h2,http/1.1
	default_backend gateway_api
backend gateway_api
	server api %[3]s ssl verify none
`

// A node joins through the reverse proxy, which has the management port.
func TestJoinThroughHAProxy(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	token := primary.token(t, standby.me.Name)
	root, address := proxytest.Root(t), proxytest.Address(t)
	folder := filepath.Join(root, "etc/haproxy/gateway")
	plain := &httpd.SelfSigned{Path: filepath.Join(folder, "default.pem"), Names: func() []string { return []string{"one.example.net"} }}
	if _, err := plain.PEM(); err != nil { // writes the file
		t.Fatal(err)
	}
	_, both := primary.room.JoinCertificate()
	for name, content := range map[string][]byte{
		"join.pem": both, "management.list": []byte(folder + "/default.pem !*\n" + folder + "/join.pem " + cluster.JoinName + "\n"),
		"haproxy.cfg": fmt.Appendf(nil, carrier, root, address, primary.api.Listener.Addr()),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	proxytest.Start(t, proxytest.Own, root)
	conn, err := tls.Dial("tcp", address, &tls.Config{ServerName: "one.example.net", InsecureSkipVerify: true}) // it is self-signed
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if name := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "one.example.net" {
		t.Errorf("who does not ask for it is shown the certificate of %s", name)
	}
	standby.room.Manage(func(string) string { return address })
	if err := standby.room.Join(t.Context(), cluster.Wish{Primary: "one.example.net", Token: token.Token}, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// CL-10: a node tries three times to register, two seconds apart, and then reports it. When the primary finds it later, it adds it.
func TestRegistersThreeTimes(t *testing.T) {
	t.Parallel()
	primary, standby := gates(t)
	token := primary.token(t, standby.me.Name)
	// Between the certificate and the registration, the primary's listener refuses, because its list has lost the expected node.
	dbtest.Exec(t, primary.DB, `CREATE FUNCTION hide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
		CREATE TRIGGER hide BEFORE INSERT ON ha_nodes FOR EACH ROW WHEN (NOT starts_with(NEW.id, 'prenode-')) EXECUTE FUNCTION hide()`)
	began := time.Now()
	if err := standby.join(t, primary, token.Token); err == nil || !strings.Contains(err.Error(), "registering") {
		t.Fatal(err)
	}
	if n := strings.Count(standby.Logs.String(), "could not register"); n != 3 || time.Since(began) < 4*time.Second {
		t.Errorf("%d tries in %s", n, time.Since(began))
	}
	if s := standby.state(t); s.Role != cluster.Single {
		t.Errorf("%+v", s)
	}
	if m := primary.members(t)["prenode-"+standby.me.Name]; m.Status != cluster.Joining {
		t.Errorf("%+v", m)
	}
	dbtest.Exec(t, primary.DB, `DROP TRIGGER hide ON ha_nodes`)
	s := primary.status(t)
	if len(s.Peers) != 1 || s.Peers[0].ID != standby.me.ID || s.Peers[0].Status != cluster.Online || s.Peers[0].PublicIP != "127.0.0.1" || s.Peers[0].Version != "1.0.0" {
		t.Errorf("%+v", s.Peers)
	}
	// The token is used up, and the join continues from where it was.
	if err := standby.join(t, primary, token.Token); err != nil {
		t.Fatal(err)
	}
	if s := standby.state(t); s.Role != cluster.Standby {
		t.Errorf("%+v", s)
	}
}
