package app_test

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
	"edge.internal/gateway/internal/license/document"
)

// companions are the other fields that the routes with secret fields need to succeed. Each room with a secret adds a line. A
// secret that must have a certain form is given here, with the mark in it.
var companions = map[string]map[string]any{
	"alert.channel.create": {
		"kind": "email", "target": "ops@example.net",
		"settings": map[string]any{"smtp_host": "mail.example.net", "smtp_port": 587, "username": "gateway", "password": mark, "from": "gateway@example.net", "use_tls": true},
	},
	"alert.channel.update":            {"settings": map[string]any{"password": mark + "-again"}},
	"backup.remote.create":            {"kind": "s3", "settings": map[string]any{"endpoint": "s3.example.net", "bucket": "backups", "access_key": "key", "secret_key": mark}},
	"backup.remote.update":            {"settings": map[string]any{"secret_key": mark + "-again"}},
	"backup.settings.update":          {"prove": true},
	"backup.create":                   {"passphrase": canaryPassphrase},
	"backup.verify":                   {"passphrase": canaryPassphrase},
	"backup.restore-plan":             {"passphrase": canaryPassphrase},
	"backup.restore":                  {"passphrase": canaryPassphrase},
	"certificate.certificate.create":  canaryPair,
	"certificate.certificate.update":  canaryPair,
	"certificate.dns-provider.create": {"name": "canary", "kind": "desec"},
	"certificate.dns-provider.update": {"name": "canary again"},
	"user.create":                     {"email": "canary@example.net"},
	"user.update":                     {"name": "Canary"},
	"license.set":                     {"key": canaryLicense},
	"oidc.settings.update":            {"issuer": "https://login.example.net", "client_id": "gateway"},
	"oidc.test":                       {"issuer": "https://127.0.0.1"},
	"radius.client.create":            {"name": "canary", "address": "192.0.2.1"},
	"radius.client.update":            {"name": "canary-again"},
	"radius.user.create":              {"name": "canary"},
	"radius.user.update":              {"name": "canary-again"},
	"radius.test":                     {"name": "canary"},
	"setup.restore.plan":              {"backup_id": "00000000-0000-7000-8000-000000000001"},
	"setup.restore.begin":             {"backup_id": "00000000-0000-7000-8000-000000000001", "interfaces": map[string]string{}},
	"setup.restore.archives":          canarySource,
	"setup.restore.fetch":             canarySource,
	"tunnel.interface.create": {
		"name": "canary0", "mode": "client", "address_cidr": "10.99.0.1/24", "active": false, "private_key": canaryKey(),
		"upstream_public_key": "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=", "upstream_endpoint": "198.51.100.1:51820", "upstream_preshared_key": canaryKey(),
	},
	"tunnel.interface.update":  {"mode": "server", "active": true, "private_key": canaryKey(), "upstream_public_key": "", "upstream_endpoint": "", "upstream_preshared_key": ""},
	"tunnel.peer.create":       {"name": "canary", "interface_id": idOf("/tunnel/interfaces"), "private_key": canaryKey(), "preshared_key": canaryKey()},
	"tunnel.peer.update":       {"name": "canary again", "private_key": canaryKey(), "preshared_key": canaryKey()},
	"tunnel.peer.below.create": {"name": "another canary", "private_key": canaryKey(), "preshared_key": canaryKey()},
	// Their secrets prove the caller's identity, and are wrong.
	"auth.login":                {"email": adminEmail},
	"auth.change-password":      {},
	"auth.reset-password":       {},
	"auth.totp.disable":         {},
	"user.password":             {},
	"cluster.certificate.issue": {"csr": "x"},
	// The house is set up.
	"setup.complete":      nil,
	"setup.complete-node": nil,
	"setup.join-cluster":  nil,
}

// idOf stands for the id of what was created at a path.
type idOf string

// keyMarks are secrets that are too short for the mark.
var keyMarks []string

// canaryKey returns a WireGuard key that must not appear anywhere.
func canaryKey() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:])
	key := base64.StdEncoding.EncodeToString(raw[:])
	keyMarks = append(keyMarks, key)
	return key
}

// canaryLicense is a license that the gateways of these tests accept, and that must not appear anywhere.
var canaryLicense = func() string {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	app.LicensePublicKey = document.FormatPublicKey(public)
	sealed, err := document.Sign(document.License{ID: "canary", Subject: "Example Ltd", Plan: "Standard", NotBefore: time.Now().AddDate(0, 0, -1), NotAfter: time.Now().AddDate(1, 0, 0)}, private)
	if err != nil {
		panic(err)
	}
	keyMarks = append(keyMarks, strings.Split(sealed.Text(), "\n")[1])
	return sealed.Text()
}()

// canaryPair is a certificate with its key, whose text must not appear anywhere either.
var canaryPair, keyMark = func() (map[string]any, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"canary.example.net"}, NotAfter: time.Now().AddDate(1, 0, 0)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return map[string]any{
		"source": "uploaded", "certificate_pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})), "private_key_pem": mark + "\n" + text,
	}, strings.Split(text, "\n")[2]
}()

// canarySource is on this machine, so that it is refused.
var canarySource = map[string]any{
	"kind": "s3", "file": "gateway_node_000000000000_1.tar.zst", "settings": map[string]any{"endpoint": "127.0.0.1:9", "bucket": "backups", "access_key": "key", "secret_key": mark},
}

const mark = "canary-in-a-mine"

// canaryPassphrase decrypts the backup.
const canaryPassphrase = mark + "-backup"

// late is 1 for routes that exist once the setup is complete.
func late(r *httpd.Route) int {
	if r.Policy.IsOwner() {
		return 0
	}
	return 1
}

// Every secret field of every route is filled with a mark, in requests that succeed and in requests that fail. No answer, log or
// database row of the gateway contains it.
func TestCanary(t *testing.T) {
	h := build(t, kittest.New(t))
	var admin, userID string // once it exists
	var output strings.Builder
	ids := map[string]string{} // of what was created, by the kind's path
	at := func(path string) string {
		id := userID
		if made := ids[strings.TrimSuffix(path, "/{id}")]; made != "" {
			id = made
		}
		for parent, made := range ids {
			if strings.HasPrefix(path, parent+"/{id}/") {
				id = made
			}
			path = strings.ReplaceAll(path, parent+"/{parent}/", parent+"/"+made+"/")
		}
		return strings.ReplaceAll(path, "{id}", id)
	}
	send := func(r *httpd.Route, body map[string]any) *kittest.Answer {
		t.Helper()
		a := h.call(t, admin, r.Method, at(r.Path), body)
		if a.Status == http.StatusCreated {
			location := a.Header.Get("Location")
			ids[r.Path] = location[strings.LastIndexByte(location, '/')+1:]
		}
		fmt.Fprintf(&output, "%s %s: %v %s\n", r.Method, r.Path, a.Header, a.Body)
		return a
	}
	marked := 0
	routes := slices.DeleteFunc(enveloped(h.routes), func(r *httpd.Route) bool { return r.Body == nil || r.Body.Type.Kind() != reflect.Struct })
	// Routes that close when the setup is complete come first.
	slices.SortStableFunc(routes, func(a, b *httpd.Route) int { return cmp.Compare(late(a), late(b)) })
	for _, r := range routes {
		if late(r) == 1 && admin == "" {
			admin = h.setUp(t)
			userID, _ = h.user(t, admin, "target@example.net", "viewer")
		}
		secrets, holds := map[string]any{}, false
		for _, f := range wire.Fields(r.Body.Type) {
			if f.Secret {
				secrets[f.Name] = fmt.Sprintf("%s-%d", mark, marked)
			}
			// A field with secrets inside is among the companions, with the mark.
			holds = holds || secret.Holds(f.Type)
		}
		if len(secrets) == 0 && !holds {
			continue
		}
		marked++
		rest, known := companions[r.ID]
		if !known {
			t.Errorf("%s has secret fields: say in companions what it takes besides", r.ID)
		}
		good, bad := maps.Clone(secrets), maps.Clone(secrets)
		maps.Copy(good, rest)
		for name, v := range good {
			if path, ok := v.(idOf); ok {
				good[name] = ids[string(path)]
			}
		}
		bad["nonsense"] = 1
		if a := send(r, good); r.Policy.String() == "write" && a.Status >= 300 {
			t.Errorf("%s: %s", r.ID, a.Body)
		}
		send(r, bad)
		if r.Method == http.MethodPut || r.Method == http.MethodPost && r.Status == http.StatusCreated {
			kind, verb := r.ID[:strings.LastIndexByte(r.ID, '.')], r.ID[strings.LastIndexByte(r.ID, '.')+1:]
			id := strings.TrimPrefix(at(r.Path), strings.TrimSuffix(r.Path, "{id}"))
			if verb == "create" {
				id = uuid.NewString()
			}
			a := h.call(t, admin, http.MethodPost, "/change-sets", map[string]any{"preview": true, "operations": []any{map[string]any{"kind": kind, "verb": verb, "id": id, "body": good}}})
			output.Write(a.Body)
		}
	}
	if marked < 5 {
		t.Fatalf("only %d routes have secrets", marked)
	}
	for _, r := range h.routes {
		if r.Method == http.MethodGet && r.Enveloped() && !r.WebSock {
			output.Write(h.call(t, admin, http.MethodGet, at(r.Path), nil).Body)
		}
	}
	entries, err := h.Audit.Search(t.Context(), audit.Filter{Limit: audit.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(&output).Encode(entries); err != nil {
		t.Fatal(err)
	}
	output.WriteString(h.Logs.String())
	var dump string
	if err := h.DB.QueryRow(t.Context(), `SELECT string_agg(query_to_xml(format('SELECT * FROM %I', table_name), true, true, '')::text, '')
		FROM information_schema.tables WHERE table_schema = 'public'`).Scan(&dump); err != nil {
		t.Fatal(err)
	}
	output.WriteString(dump)
	// AU09: nor does the database have the secret that signs sessions, in whatever form.
	signing, err := os.ReadFile(h.Paths.State("jwt-secret"))
	if err != nil || len(signing) < 32 {
		t.Fatal(len(signing), err)
	}
	signatures := []string{string(signing), hex.EncodeToString(signing), base64.RawStdEncoding.EncodeToString(signing), base64.RawURLEncoding.EncodeToString(signing)}
	for _, secret := range append(append(signatures, mark, keyMark), keyMarks...) {
		if i := strings.Index(output.String(), secret); i >= 0 {
			t.Errorf("a secret was output: …%s…", output.String()[max(0, i-300):min(output.Len(), i+100)])
		}
	}
}
