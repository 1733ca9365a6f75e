package machine

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// The TSIG key that may change the zone.
const (
	tsigName   = "gateway-update."
	tsigSecret = "c2VjcmV0IG9mIHRoZSBuYW1lIHNlcnZlcg=="
)

// acmeZone is the zone for which the name server accepts updates.
const acmeZone = "example.org."

// acmeNames is the name server of the wan side: for the gateway, the certificate authority, and signed updates.
type acmeNames struct {
	mu      sync.Mutex
	records []dns.RR
	refused map[string]bool // names about which it has nothing to say
	updates int
}

func newAcmeNames(t *testing.T, e *edge) *acmeNames {
	t.Helper()
	n := &acmeNames{refused: map[string]bool{}}
	n.set(t, acmeZone+" 60 IN SOA ns.example.org. admin.example.org. 1 60 60 60 60", acmeZone+" 60 IN NS ns.example.org.", "ns.example.org. 60 IN A "+wan4)
	secrets := map[string]string{tsigName: tsigSecret}
	var udp, tcp *dns.Server
	err := e.Within(lab.Wan, func() error {
		packets, err := net.ListenPacket("udp", wan4+":53")
		if err != nil {
			return err
		}
		streams, err := net.Listen("tcp", wan4+":53")
		udp = &dns.Server{PacketConn: packets, Handler: n, TsigSecret: secrets}
		tcp = &dns.Server{Listener: streams, Handler: n, TsigSecret: secrets, MsgAcceptFunc: updatesToo}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*dns.Server{udp, tcp} {
		go func() { _ = s.ActivateAndServe() }() // until it is shut down
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return n
}

// updatesToo lets in the messages that change something.
func updatesToo(h dns.Header) dns.MsgAcceptAction {
	if opcode := int(h.Bits>>11) & 0xf; opcode == dns.OpcodeUpdate {
		return dns.MsgAccept
	}
	return dns.DefaultMsgAcceptFunc(h)
}

// set adds records.
func (n *acmeNames) set(t testing.TB, records ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		n.records = append(n.records, rr)
	}
}

// leads makes names resolve to an address.
func (n *acmeNames) leads(t testing.TB, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		n.set(t, name+". 60 IN A "+to)
	}
}

// forget removes all records of a name.
func (n *acmeNames) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.records = slices.DeleteFunc(n.records, func(rr dns.RR) bool { return rr.Header().Name == dns.Fqdn(name) })
}

// texts are the TXT records that there are.
func (n *acmeNames) texts() (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, rr := range n.records {
		if rr.Header().Rrtype == dns.TypeTXT {
			list = append(list, rr.String())
		}
	}
	return list
}

func (n *acmeNames) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answer := new(dns.Msg).SetReply(q)
	answer.Authoritative = true
	if q.Opcode == dns.OpcodeUpdate {
		answer.Rcode = n.update(w, q)
		if key := q.IsTsig(); key != nil && w.TsigStatus() == nil {
			answer.SetTsig(key.Hdr.Name, key.Algorithm, 300, time.Now().Unix())
		}
	} else {
		n.answer(answer, strings.ToLower(q.Question[0].Name), q.Question[0].Qtype)
	}
	_ = w.WriteMsg(answer) // the client notices
}

func (n *acmeNames) answer(answer *dns.Msg, name string, kind uint16) {
	if n.refused[name] {
		answer.Rcode = dns.RcodeServerFailure
		return
	}
	known := false
	for _, rr := range n.records {
		known = known || dns.IsSubDomain(name, rr.Header().Name)
		if rr.Header().Name == name && rr.Header().Rrtype == kind {
			answer.Answer = append(answer.Answer, rr)
		}
	}
	if !known {
		answer.Rcode = dns.RcodeNameError
	}
}

// update changes the zone, if the request has the key's signature (RFC 2136).
func (n *acmeNames) update(w dns.ResponseWriter, q *dns.Msg) int {
	if q.IsTsig() == nil || w.TsigStatus() != nil {
		return dns.RcodeNotAuth
	}
	if q.Question[0].Name != acmeZone {
		return dns.RcodeNotZone
	}
	for _, rr := range q.Ns {
		n.updates++
		if rr.Header().Class == dns.ClassINET {
			n.records = append(n.records, rr)
			continue
		}
		rr.Header().Class, rr.Header().Ttl = dns.ClassINET, 0
		n.records = slices.DeleteFunc(n.records, func(x dns.RR) bool { return dns.IsDuplicate(x, rr) })
	}
	return dns.RcodeSuccess
}

// acmeDirectory is the certificate authority's.
const acmeDirectory = "https://" + wan4 + ":14000/dir"

// startPebble runs a certificate authority on the wan side, which the gateway trusts.
func startPebble(t *testing.T, e *edge) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := newEdgeAuthority(t)
	own, _ := ca.issue(t, wan4)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": wan4 + ":14000", "managementListenAddress": wan4 + ":15000", "httpPort": 80, "tlsPort": 443,
		"certificate": write("cert.pem", []byte(own["certificate_pem"].(string))), "privateKey": write("key.pem", []byte(own["private_key_pem"].(string))),
	}})
	if err != nil {
		t.Fatal(err)
	}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	if err := os.WriteFile(e.Path("/etc/gateway/acme-ca.pem"), root, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, err := e.Command(t.Context(), lab.Wan, "pebble", "-config", write("pebble.json", config), "-dnsserver", wan4+":53")
	if err != nil {
		t.Fatal(err)
	}
	// No delays, no nonces that are rejected as a test, and every order is validated again.
	cmd.Env = append(cmd.Env, "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0")
	// A file, and not a pipe, which would be held until the lab has ended.
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		log.Close()
		if said, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("pebble: %v\n%s", err, said[max(0, len(said)-6000):])
		}
	})
	waittest.UntilNil(t, "the certificate authority answers", func() error {
		conn, err := e.dial("tcp", wan4+":14000")
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// acmeRow is a certificate as the API has it.
type acmeRow struct {
	ID            string
	DomainID      *string `json:"domain_id"`
	Names         []string
	Source        string
	Challenge     string
	Automatic     bool
	Status        string
	Issuer        string
	Fingerprint   string     `json:"fingerprint_sha256"`
	LastRenewedAt *time.Time `json:"last_renewed_at"`
	LastError     string     `json:"last_error"`
	ErrorKind     string     `json:"error_kind"`
	Attempts      int
}

// certificates are all that there are.
func (e *edge) certificates(t testing.TB) (rows []acmeRow) {
	t.Helper()
	e.Must(t, http.MethodGet, "/certificates?limit=1000", nil, 200, &rows)
	return rows
}

// certificate waits until the certificate of a name is as it should be.
func (e *edge) certificate(t *testing.T, name, what string, so func(acmeRow) bool) (row acmeRow) {
	t.Helper()
	waittest.UntilNil(t, fmt.Sprintf("%s is %s", name, what), func() error {
		all := e.certificates(t)
		i := slices.IndexFunc(all, func(row acmeRow) bool { return slices.Contains(row.Names, name) && so(row) })
		if i < 0 {
			return fmt.Errorf("%+v", all)
		}
		row = all[i]
		return nil
	})
	return row
}

// issued: a certificate authority has issued it, and the proxy was seen to show it.
func issued(row acmeRow) bool {
	return row.Source == "acme" && row.Status == "valid" && row.LastRenewedAt != nil && row.LastError == "" && strings.Contains(row.Issuer, "Pebble")
}

func failedOf(kind string) func(acmeRow) bool {
	return func(row acmeRow) bool { return row.ErrorKind == kind && row.LastError != "" && row.Attempts > 0 }
}

// shows complains unless a port shows a certificate for a name.
func (e *edge) shows(t testing.TB, port, name, fingerprint string) {
	t.Helper()
	if got, err := e.shown(port, name); err != nil || got != fingerprint {
		t.Errorf("port %s shows %s for %s instead of %s (%v)", port, got, name, fingerprint, err)
	}
}

// keyFile is where the proxy has a certificate with its key.
func (e *edge) keyFile(id string) string {
	return e.Path(fmt.Sprintf("/etc/haproxy/gateway/certificates/%s.pem", id))
}
