package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/setup"
)

// box is a whole gateway with its ports, before its setup.
type box struct {
	house
	whole *app.House
	api   *httptest.Server
	id    string
	// agents is the address for other nodes.
	agents string
}

// listens reports whether other nodes can connect.
func (m *box) listens() bool {
	conn, err := net.Dial("tcp", m.agents)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func newBox(t *testing.T, d *db.DB, databases *sync.Map) *box {
	t.Helper()
	b := kittest.NewOn(t, d)
	m := &box{id: strings.ReplaceAll(uuid.NewString(), "-", "")}
	facts := b.Machine.Facts()
	facts.MachineID = m.id
	b.Machine.SetFacts(facts)
	databases.Store(m.id, dbtest.Address(d))
	store, err := setup.OpenStore(b.Paths)
	if err != nil {
		t.Fatal(err)
	}
	if m.whole, err = app.Build(b.Kit, store, password.New(bcrypt.MinCost)); err != nil {
		t.Fatal(err)
	}
	m.house = house{Bench: b, routes: b.Router.Routes()}
	m.whole.Cluster.Reach(func(of cluster.Member) (string, error) {
		address, _ := databases.Load(of.ID)
		return address.(string), nil
	})
	b.Machine.LendJob(job.Repair, func() { // on a machine, systemd does this with gateway-repair
		if err := m.whole.Cluster.GrantRepair(context.Background()); err != nil {
			t.Error(err)
		}
	})
	b.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.agents = l.Addr().String()
	m.whole.Cluster.SetAgentPort(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- m.whole.ServeAgents(ctx, m.agents, func() bool { return false })
	}()
	m.api = httptest.NewUnstartedServer(b.Handler())
	m.api.TLS = m.whole.SelfSigned.Config()
	m.api.Config.ConnContext = httpd.Arrived
	m.api.StartTLS()
	t.Cleanup(func() {
		m.api.Close()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m
}

// A machine joins a cluster by its setup: then it has the cluster's accounts and configuration, and follows the primary. The
// packet filter admits the node before it has its certificate, and the reverse proxy presents the cluster's certificate to
// machines that join.
func TestJoinByTheSetup(t *testing.T) {
	t.Parallel()
	one, other := dbtest.Pair(t, dbtest.Server(t))
	var databases sync.Map
	primary, node := newBox(t, one, &databases), newBox(t, other, &databases)
	if err := primary.Secrets.Adopt(make([]byte, 32)); err != nil { // no two machines have the same
		t.Fatal(err)
	}
	admin := primary.setUp(t)
	primary.call(t, admin, http.MethodPost, "/ntp/pools", `{"address":"shared.example.net"}`).Want(t, 201)
	primary.call(t, admin, http.MethodPost, "/radius/users", `{"name":"u","password":"s3cret"}`).Want(t, 201)

	if primary.listens() || node.listens() {
		t.Error("a gateway without a cluster listens to other nodes")
	}
	var token cluster.Token
	primary.call(t, admin, http.MethodPost, "/cluster/join-tokens", `{"node_fqdn":"elsewhere.example.net"}`).Want(t, 201).Into(t, &token)
	if b, err := primary.Machine.Read(haproxy.ManagementList); err != nil || !strings.Contains(string(b), " "+cluster.JoinName) {
		t.Errorf("who has the token is not shown the cluster's certificate: %v %s", err, b)
	}
	waittest.Until(t, "the primary listens to other nodes", primary.listens)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: uuid.NewString()}}, key)
	if err != nil {
		t.Fatal(err)
	}
	table := func() string {
		b, err := primary.Machine.Read(nftables.Table)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if strings.Contains(table(), "192.0.2.77") {
		t.Error("the node is let in before it has shown its token")
	}
	kittest.Call(t, primary.Handler(), http.MethodPost, "/cluster/certificates", map[string]any{
		"join_token": token.Token, "csr": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
	}, "X-Test-Client", "192.0.2.77:4711", "X-Test-Server", "127.0.0.1:3443").Want(t, 200)
	if !strings.Contains(table(), "192.0.2.77") {
		t.Error("the node is not let in although it has its certificate")
	}
	primary.call(t, admin, http.MethodPost, "/cluster/nodes/prenode-elsewhere.example.net/leave", nil).Want(t, 200)
	if strings.Contains(table(), "192.0.2.77") {
		t.Error("the node is let in although it is not expected any more")
	}
	if sites, err := primary.Machine.Read(haproxy.CertificateList); err != nil || strings.Contains(string(sites), cluster.JoinName) {
		t.Errorf("the cluster's certificate is shown to visitors of sites: %v", err)
	}

	primary.call(t, admin, http.MethodPost, "/cluster/join-tokens", `{"node_fqdn":"node.example.net"}`).Want(t, 201).Into(t, &token)
	node.whole.Cluster.Manage(func(string) string { return primary.api.Listener.Addr().String() })
	site := map[string]any{"fqdn": "node.example.net", "acme_enabled": false, "ipv6_enabled": false}
	node.call(t, "", http.MethodPost, "/setup/complete-node", site).Want(t, 409)
	node.call(t, "", http.MethodPost, "/setup/join-cluster", map[string]any{"primary_fqdn": "gateway.example.net", "join_token": token.Token + "x"}).WantField(t, "join_token")
	var status setup.Status
	node.call(t, "", http.MethodPost, "/setup/join-cluster", map[string]any{"primary_fqdn": "gateway.example.net", "join_token": token.Token, "ca_fingerprint": token.CAFingerprint}).Want(t, 200).Into(t, &status)
	if !status.IsClusterNode || status.Completed || status.FQDN != "node.example.net" {
		t.Errorf("%+v", status)
	}
	node.call(t, "", http.MethodPost, "/setup/complete", map[string]any{
		"admin_email": "other@example.net", "admin_password": secretWord, "fqdn": "node.example.net", "acme_enabled": false, "ipv6_enabled": true,
	}).Want(t, 409)
	node.call(t, "", http.MethodPost, "/setup/complete-node", site).Want(t, 200)

	there := node.login(t, adminEmail) // of the cluster
	node.call(t, there, http.MethodPost, "/ntp/pools", `{"address":"passed.example.net"}`).Want(t, 201)
	primary.call(t, admin, http.MethodPost, "/ntp/pools", `{"address":"later.example.net"}`).Want(t, 201)
	waittest.Until(t, "the node applies what the cluster has", func() bool {
		b, err := node.Machine.Read(chrony.DropIn)
		users, bad := node.Machine.Read(freeradius.Users)
		return err == nil && strings.Contains(string(b), "shared.example.net") && strings.Contains(string(b), "passed.example.net") && strings.Contains(string(b), "later.example.net") && bad == nil && strings.Contains(string(users), "s3cret")
	})
	waittest.UntilNil(t, "the primary names the setting that is another one there", func() error {
		var s cluster.ClusterStatus
		if primary.call(t, admin, http.MethodGet, "/cluster/status", nil).Want(t, 200).Into(t, &s); s.Health != "degraded" || !slices.Equal(s.Peers[0].Differ, []string{"ipv6"}) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	node.call(t, there, http.MethodPost, "/system/ipv6", `{"enabled":true}`).Want(t, 200)
	for _, m := range []*box{primary, node} {
		caller := admin
		if m == node {
			caller = there
		}
		var s cluster.ClusterStatus
		waittest.Until(t, "the cluster is well", func() bool {
			m.call(t, caller, http.MethodGet, "/cluster/status", nil).Want(t, 200).Into(t, &s)
			return s.Health == "OK" && s.Mode == "cluster"
		})
		if s.DriftFound || s.PrimaryID != primary.id || len(s.LocalNode.ConfigHash) != 32 {
			t.Errorf("%+v", s)
		}
	}
	waittest.Until(t, "the node listens to other nodes", node.listens)

	// It leaves and keeps its configuration, except the virtual addresses.
	node.call(t, there, http.MethodPost, "/network-interfaces", `{"name":"eth7","type":"ethernet","role":"lan"}`).Want(t, 201)
	node.call(t, there, http.MethodPut, "/cluster/vip-settings", `{"vip_address":"192.0.2.9","vip_interface":"eth7","vrrp_router_id":7}`).Want(t, 200)
	primary.call(t, admin, http.MethodPost, "/cluster/nodes/"+node.id+"/leave", nil).Want(t, 200)
	waittest.Until(t, "a node that has left does not listen to others", func() bool { return !node.listens() })
	node.call(t, there, http.MethodPost, "/ntp/pools", `{"address":"alone.example.net"}`).Want(t, 201)
	if a := node.call(t, there, http.MethodGet, "/cluster/vip-settings", nil).Want(t, 200); !strings.Contains(string(a.Data), `"vip_address":""`) {
		t.Errorf("%s", a.Data)
	}
	node.call(t, "", http.MethodGet, "/setup/status", nil).Want(t, 200).Into(t, &status)
	if status.IsClusterNode || !status.Completed {
		t.Errorf("%+v", status)
	}
	for _, m := range []*box{primary, node} {
		if logs := m.Logs.String(); strings.Contains(logs, token.Token) || strings.Contains(logs, "PRIVATE KEY") {
			t.Error("the log has a secret")
		}
	}
}
