package machine

import (
	"crypto/tls"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// acmeRig is a lab with a certificate authority and a name server on its wan side.
type acmeRig struct {
	*edge
	names   *acmeNames
	backend string
}

// TestACME orders real certificates from a real authority, which connects to port 80 through the proxy, or queries a name server.
func TestACME(t *testing.T) {
	t.Parallel()
	e := newEdge(t, lab.Options{Volatile: true})
	r := &acmeRig{edge: e, names: newAcmeNames(t, e)}
	e.Run(t, lab.Gateway, "sh", "-c", "rm -f /etc/resolv.conf; echo nameserver "+wan4+" > /etc/resolv.conf")
	startPebble(t, e)
	e.origin(t, originA, nil)
	r.backend, _ = e.backend(t, "sites", originA)
	r.names.leads(t, gwWan4, acmeGateway, "www.example.net")
	for _, x := range []struct {
		name string
		test func(*testing.T, *acmeRig)
	}{
		{"DomainOrdersByItself", domainOrders},
		{"OwnName", ownName},
		{"WildcardByDNS", wildcardByDNS},
		{"FailuresAreNamed", failuresAreNamed},
		{"RenewalDisturbsNobody", renewal},
		{"MendedOrderSucceeds", mendedOrder},
		{"CertificateGoesWithItsDomain", goesWithItsDomain},
		{"UploadedAndChosen", uploadedAndChosen},
		{"BestIsShown", bestIsShown},
		{"KeysStaySecret", keysStaySecret},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, r) })
	}
}

// acmeGateway is the FQDN of a gateway in a lab.
const acmeGateway = "gateway.lab.internal"

// A domain that is new gets its certificate without anybody asking for it, and without a reload.
func domainOrders(t *testing.T, r *acmeRig) {
	// The gateway's own certificate is ordered when ACME is turned on.
	r.Must(t, http.MethodPut, "/certificates/acme", fields{"enabled": true, "email": "admin@example.net", "directory_url": acmeDirectory}, 200, nil)
	own := r.certificate(t, acmeGateway, "ordered", func(acmeRow) bool { return true })
	if !own.Automatic || own.DomainID != nil {
		t.Errorf("%+v", own)
	}
	// Showing it on the management port requires a reload.
	waittest.Until(t, "the management port shows it", func() bool {
		now, err := r.shown("3443", acmeGateway)
		return err == nil && now == r.certificate(t, acmeGateway, "there", func(acmeRow) bool { return true }).Fingerprint
	})
	before := r.status(t)
	id := r.domain(t, "www.example.net", r.backend, nil)
	row := r.certificate(t, "www.example.net", "issued", issued)
	if !row.Automatic || row.DomainID == nil || *row.DomainID != id || row.Challenge != "http-01" {
		t.Errorf("%+v", row)
	}
	r.shows(t, "443", "www.example.net", row.Fingerprint)
	if err := r.answers("https://www.example.net/", 200, "origin"); err != nil {
		t.Error(err)
	}
	if after := r.status(t); after.Reloads != before.Reloads {
		t.Errorf("a domain and its certificate took %d reloads", after.Reloads-before.Reloads)
	}
	var entries []struct{ Action, Actor string }
	r.Must(t, http.MethodGet, "/audit?action=certificate.&limit=50", nil, 200, &entries)
	seen := map[string]bool{}
	for _, x := range entries {
		seen[x.Action+" by "+x.Actor] = true
	}
	for _, want := range []string{"certificate.certificate.create by gateway-api", "certificate.issued by gateway-api", "certificate.live by gateway-api"} {
		if !seen[want] {
			t.Errorf("no %s in the audit: %v", want, seen)
		}
	}
}

// The gateway shows its own certificate for its own name on every port, whichever program serves it.
func ownName(t *testing.T, r *acmeRig) {
	row := r.certificate(t, acmeGateway, "issued", issued)
	for _, port := range []string{"443", "3443"} {
		r.shows(t, port, acmeGateway, row.Fingerprint)
	}
	if err := r.answers("https://"+acmeGateway+"/api/v1/system/health", 200, "{"); err != nil {
		t.Error(err)
	}
	waittest.Until(t, "the service itself shows the certificate", func() bool {
		if err := r.Units().Stop(t.Context(), haproxy.Unit); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "the service has the management port", func() bool { return r.status(t).Management == "service" })
		r.shows(t, "3443", acmeGateway, row.Fingerprint)
		return r.status(t).Management == "service" // and the engine has not started HAProxy in the meantime
	})
	if err := r.Units().Start(t.Context(), haproxy.Unit); err != nil {
		t.Fatal(err)
	}
	r.WaitState(t, "reverse-proxy", "live", 20*time.Second)
	r.shows(t, "3443", acmeGateway, row.Fingerprint)
}

// A wildcard is validated by a record that a name server accepts as a signed update.
func wildcardByDNS(t *testing.T, r *acmeRig) {
	provider := fields{"name": "name server", "kind": "rfc2136", "zones": []string{"example.org"}, "server": wan4, "username": strings.TrimSuffix(tsigName, "."), "secret": "b3RoZXI="}
	var p struct{ ID string }
	r.Must(t, http.MethodPost, "/dns-providers", provider, 201, &p)
	r.domain(t, "*.example.org", r.backend, nil)
	row := r.certificate(t, "*.example.org", "refused by the name server", failedOf("dns"))
	if row.Challenge != "dns-01" || !strings.Contains(row.LastError, "name server") {
		t.Errorf("%+v", row)
	}
	before := r.status(t)
	// With the correct key it is ordered again at once.
	r.Must(t, http.MethodPut, "/dns-providers/"+p.ID, fields{"secret": tsigSecret}, 200, nil)
	row = r.certificate(t, "*.example.org", "issued", issued)
	r.shows(t, "443", "any.example.org", row.Fingerprint)
	if err := r.answers("https://any.example.org/", 200, "origin"); err != nil {
		t.Error(err)
	}
	if left := r.names.texts(); len(left) != 0 || r.names.updates < 2 {
		t.Errorf("%d updates, and there is left: %v", r.names.updates, left)
	}
	if after := r.status(t); after.Reloads != before.Reloads {
		t.Errorf("the certificate took %d reloads", after.Reloads-before.Reloads)
	}
}

// A certificate is replaced while the site is used.
func renewal(t *testing.T, r *acmeRig) {
	old := r.certificate(t, "www.example.net", "issued", issued)
	before := r.status(t)
	stop, done := make(chan struct{}), make(chan struct{})
	asked := 0
	go func() {
		defer close(done)
		held := &edgeConn{}
		defer held.end()
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, conn := range []*edgeConn{held, {}} {
				req, err := http.NewRequest(http.MethodGet, "https://www.example.net/", http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				p, err := conn.ask(r.edge, req, false)
				if err != nil || p.StatusCode != 200 {
					t.Errorf("%v %+v", err, p)
					return
				}
				if conn != held {
					conn.end()
				}
				asked++
			}
		}
	}()
	r.Must(t, http.MethodPost, "/certificates/"+old.ID+"/renew", nil, 200, nil)
	row := r.certificate(t, "www.example.net", "renewed", func(row acmeRow) bool {
		return issued(row) && row.Fingerprint != old.Fingerprint && row.LastRenewedAt.After(*old.LastRenewedAt)
	})
	close(stop)
	<-done
	r.shows(t, "443", "www.example.net", row.Fingerprint)
	if after := r.status(t); after.Reloads != before.Reloads {
		t.Errorf("the renewal took %d reloads", after.Reloads-before.Reloads)
	}
	t.Logf("%d requests during the renewal", asked)
}

// A failed order names the reason.
func failuresAreNamed(t *testing.T, r *acmeRig) {
	r.names.leads(t, gwWan4, "caa.example.net")
	r.names.set(t, `caa.example.net. 60 IN CAA 0 issue ";"`)
	r.names.leads(t, wan4, "elsewhere.example.net") // where nothing listens
	for name, kind := range map[string]string{"nowhere.example.net": "dns", "elsewhere.example.net": "connection", "caa.example.net": "caa"} {
		r.domain(t, name, r.backend, nil)
		row := r.certificate(t, name, "failed of "+kind, failedOf(kind))
		if row.Status != "error" || !strings.Contains(row.LastError, "example.net") && kind != "connection" {
			t.Errorf("%+v", row)
		}
		t.Logf("%s: %s", name, row.LastError)
		// In the meantime, the site works with a certificate that the gateway has signed.
		if err := r.answers("https://"+name+"/", 200, "origin"); err != nil {
			t.Error(err)
		}
		r.shows(t, "443", name, row.Fingerprint)
	}
	row := r.certificate(t, "elsewhere.example.net", "failed", failedOf("connection"))
	r.names.forget("elsewhere.example.net")
	r.names.leads(t, gwWan4, "elsewhere.example.net")
	r.Must(t, http.MethodPost, "/certificates/"+row.ID+"/renew", nil, 200, nil)
}

// What was mended above is ordered while others are.
func mendedOrder(t *testing.T, r *acmeRig) {
	row := r.certificate(t, "elsewhere.example.net", "issued", issued)
	r.shows(t, "443", "elsewhere.example.net", row.Fingerprint)
	if row.Attempts != 0 {
		t.Errorf("%+v", row)
	}
}

// A domain's certificate is deleted with it, including the key.
func goesWithItsDomain(t *testing.T, r *acmeRig) {
	for name, end := range map[string]func(id string){
		"nowhere.example.net":   func(id string) { r.live(t, http.MethodPut, "/domains/"+id, fields{"active": false}, 200) },
		"elsewhere.example.net": func(id string) { r.live(t, http.MethodDelete, "/domains/"+id, nil, 200) },
	} {
		row := r.certificate(t, name, "there", func(acmeRow) bool { return true })
		waittest.UntilNil(t, "the key file of "+name+" is there", func() error { _, err := os.Stat(r.keyFile(row.ID)); return err })
		end(*row.DomainID)
		waittest.UntilNil(t, "the certificate of "+name+" goes", func() error {
			a, err := r.Do(t.Context(), http.MethodGet, "/certificates/"+row.ID, nil)
			return answered(a, err, 404)
		})
		waittest.Until(t, "the key file of "+name+" goes", func() bool { _, err := os.Stat(r.keyFile(row.ID)); return os.IsNotExist(err) })
		waittest.Until(t, "the certificate of "+name+" is not shown any more", func() bool {
			got, err := r.shown("443", name)
			return err == nil && got != row.Fingerprint
		})
	}
}

// Uploaded certificates are shown for their names, and a domain's chosen certificate takes precedence.
func uploadedAndChosen(t *testing.T, r *acmeRig) {
	const name = "own.example.net"
	ca := newEdgeAuthority(t)
	upload, first := ca.issue(t, name)
	one := r.live(t, http.MethodPost, "/certificates", upload, 201)
	domain := r.domain(t, name, r.backend, nil)
	r.shows(t, "443", name, first)
	upload, second := ca.issue(t, name, "other.example.net")
	two := r.live(t, http.MethodPost, "/certificates", upload, 201)
	chosen := map[string]string{one: first, two: second}
	for id, fingerprint := range chosen {
		r.live(t, http.MethodPut, "/domains/"+domain, fields{"certificate_id": id}, 200)
		r.shows(t, "443", name, fingerprint)
		r.Must(t, http.MethodDelete, "/certificates/"+id, nil, 409, nil)
	}
	r.shows(t, "443", "other.example.net", second)
	for _, row := range r.certificates(t) {
		if row.Automatic && row.Names[0] == name {
			t.Errorf("ordered although there is one: %+v", row)
		}
	}
	// The key must match the certificate.
	foreign, _ := ca.issue(t, name)
	upload["private_key_pem"] = foreign["private_key_pem"]
	r.Must(t, http.MethodPost, "/certificates", upload, 400, nil)
}

// Of two certificates for the same name the one that expires later is shown, also when one of them is replaced, and without a reload.
func bestIsShown(t *testing.T, r *acmeRig) {
	const name = "best.example.net"
	r.domain(t, name, r.backend, nil)
	ca := newEdgeAuthority(t)
	var rows [2]string
	before := r.status(t)
	for n, hours := range []int{500, 1000, 700, 2000, 3000, 4000} {
		ca.lasts = time.Duration(hours) * time.Hour
		upload, fingerprint := ca.issue(t, name)
		if n < len(rows) {
			rows[n] = r.live(t, http.MethodPost, "/certificates", upload, 201)
		} else {
			r.live(t, http.MethodPut, "/certificates/"+rows[n%len(rows)], upload, 200)
		}
		if got, err := r.shown("443", name); err != nil || (got == fingerprint) != (hours != 700) {
			t.Errorf("certificate %d of %d hours: %s is shown, and it is %s (%v)", n, hours, got, fingerprint, err)
		}
	}
	// A self-signed certificate is replaced by a wildcard, even if it is signed again.
	upload, fingerprint := ca.issue(t, "*."+name)
	r.live(t, http.MethodPost, "/certificates", upload, 201)
	own := r.live(t, http.MethodPost, "/certificates", fields{"source": "self-signed", "names": []string{"one." + name}}, 201)
	r.live(t, http.MethodPost, "/certificates/"+own+"/renew", nil, 200)
	r.shows(t, "443", "one."+name, fingerprint)
	if after := r.status(t); after.Reloads != before.Reloads {
		t.Errorf("%d reloads", after.Reloads-before.Reloads)
	}
}

// secretLine is a line of the key in PEM.
func secretLine(text string) string {
	_, key, _ := strings.Cut(text, "PRIVATE KEY-----\n")
	_, key, _ = strings.Cut(key, "\n") // the first one has the type of the key
	line, _, _ := strings.Cut(key, "\n")
	return line
}

// Only root can read a private key, anywhere.
func keysStaySecret(t *testing.T, r *acmeRig) {
	count := 0
	var keys []string
	err := filepath.WalkDir(r.Path("/etc/haproxy/gateway/certificates"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		count++
		info, err := d.Info()
		if err != nil {
			return err
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; info.Mode() != 0o600 || owner != 0 {
			t.Errorf("%s has the mode %s and belongs to %d", d.Name(), info.Mode(), owner)
		}
		b, err := os.ReadFile(path)
		if err == nil {
			_, err = tls.X509KeyPair(b, b)
		}
		keys = append(keys, secretLine(string(b)))
		return err
	})
	if err != nil || count < 3 || slices.Contains(keys, "") {
		t.Errorf("%d files, %v", count, err)
	}
	texts := map[string]string{"the logs": r.logs(t)}
	upload, _ := newEdgeAuthority(t).issue(t, "preview.example.net")
	preview := fields{"preview": true, "operations": []operation{create("certificate.certificate", upload)}}
	texts["a preview"] = string(r.Must(t, http.MethodPost, "/change-sets", preview, 200, nil).Body)
	for _, path := range []string{"/system/config-preview?generator=reverse-proxy", "/audit?limit=1000", "/certificates?limit=1000", "/system/components", "/proxy/status"} {
		texts[path] = string(r.Must(t, http.MethodGet, path, nil, 200, nil).Body)
	}
	if !strings.Contains(texts["a preview"], "redacted") || !strings.Contains(texts["/system/config-preview?generator=reverse-proxy"], "redacted") {
		t.Error("the previews do not show that there is something to hide")
	}
	keys = append(keys, secretLine(upload["private_key_pem"].(string)))
	for where, text := range texts {
		for _, key := range append(keys, "PRIVATE KEY") {
			if strings.Contains(text, key) {
				t.Errorf("there is a private key in %s", where)
			}
		}
	}
}
