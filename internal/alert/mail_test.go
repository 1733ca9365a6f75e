package alert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/outbound"
	"edge.internal/gateway/internal/kit/waittest"
)

// exim is a real mail server. It accepts mail for everyone, stores it in one file, and requires a password if asked to.
type exim struct {
	plain, implicit int // ports
	folder          string
	roots           *x509.CertPool
}

const mailUser, mailPassword = "gateway", `s3cret "pass`

// startExim runs Exim until the test ends. Without withTLS it offers no TLS.
func startExim(t *testing.T, withTLS, wantsLogin bool) *exim {
	t.Helper()
	account, err := user.Lookup("Debian-exim")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	// t.TempDir does not work here: other users may not enter it.
	folder, err := os.MkdirTemp("", "exim-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	e := &exim{plain: freePort(t), implicit: freePort(t), folder: folder}
	certificate, key, roots := selfSigned(t)
	e.roots = roots
	for name, content := range map[string]string{"cert.pem": certificate, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{folder, filepath.Join(folder, "spool"), filepath.Join(folder, "log")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	offers, check := "*", "accept"
	if !withTLS {
		offers = ""
	}
	if wantsLogin {
		check = "accept\n    authenticated = *"
	}
	config := filepath.Join(folder, "exim.conf")
	text := fmt.Sprintf(`
primary_hostname = mail.example.net
keep_environment =
spool_directory = %[1]s/spool
log_file_path = %[1]s/log/%%slog
pid_file_path = %[1]s/exim.pid
tls_advertise_hosts = %[2]s
tls_certificate = %[1]s/cert.pem
tls_privatekey = %[1]s/key.pem
tls_on_connect_ports = %[4]d
daemon_smtp_ports = %[3]d : %[4]d
local_interfaces = <; 127.0.0.1 ; ::1
acl_smtp_rcpt = check
host_lookup =
rfc1413_query_timeout = 0s
begin acl
check:
  %[5]s
begin routers
all:
  driver = accept
  transport = file
begin transports
file:
  driver = appendfile
  file = %[1]s/mbox
  user = Debian-exim
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_condition = ${if and{{eq{$auth2}{%[6]s}}{eq{$auth3}{s3cret \"pass}}}}
  server_set_id = $auth2
`, folder, offers, e.plain, e.implicit, check, mailUser)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.Command("exim4", "-bdf", "-C", config)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("exim output:\n%s", output.String())
		}
	})
	waittest.UntilNil(t, "exim listens", func() error {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", e.implicit))
		if err == nil {
			conn.Close()
		}
		return err
	})
	return e
}

// mail waits for a message that contains the text, and returns all mail.
func (e *exim) mail(t *testing.T, text string) string {
	t.Helper()
	var all []byte
	waittest.UntilNil(t, fmt.Sprintf("a mail with %q", text), func() error {
		all, _ = os.ReadFile(filepath.Join(e.folder, "mbox"))
		if !bytes.Contains(all, []byte(text)) {
			log, _ := os.ReadFile(filepath.Join(e.folder, "log/mainlog"))
			return fmt.Errorf("%q\n%s", all, log)
		}
		return nil
	})
	return string(all)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// selfSigned returns a certificate for this machine, and the roots that trust it.
func selfSigned(t *testing.T) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certificate))
	return certificate, key, roots
}

// E-mail works with STARTTLS, with implicit TLS, and without TLS; a failure says why.
func TestMailByExim(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	secured, open := startExim(t, true, true), startExim(t, false, false)
	trusting := outbound.New(h.Host).Trusting(secured.roots)
	send := func(door *outbound.Door, port int, settings map[string]any) string {
		t.Helper()
		h.Outbound = door
		all := map[string]any{"smtp_host": "localhost", "smtp_port": port, "from": "gateway@example.net"}
		for k, v := range settings {
			all[k] = v
		}
		c := h.channel(t, map[string]any{"kind": "email", "target": "ann@example.net", "allow_internal": true, "settings": all})
		var out Tested
		h.Do(t, "admin", http.MethodPost, "/alerts/"+c.ID.String()+"/test", nil).Want(t, http.StatusOK).Into(t, &out)
		if len(out.Results) != 1 || out.Results[0].OK != (out.Results[0].Error == "") {
			t.Fatalf("%+v", out)
		}
		return out.Results[0].Error
	}
	login := map[string]any{"username": mailUser, "password": mailPassword, "use_tls": true}
	with := func(more map[string]any) map[string]any {
		all := map[string]any{}
		for _, m := range []map[string]any{login, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	for _, c := range []struct {
		name     string
		door     *outbound.Door
		port     int
		settings map[string]any
		says     string
	}{
		{"STARTTLS", trusting, secured.plain, login, ""},
		{"implicit TLS", trusting, secured.implicit, with(map[string]any{"implicit_tls": true}), ""},
		{"no TLS", trusting, open.plain, nil, ""},
		{"STARTTLS at an IPv6 address", trusting, secured.plain, with(map[string]any{"smtp_host": "::1"}), ""},
		{"implicit TLS at an IPv6 address", trusting, secured.implicit, with(map[string]any{"smtp_host": "::1", "implicit_tls": true}), ""},
		{"no TLS at an IPv6 address", trusting, open.plain, map[string]any{"smtp_host": "::1"}, ""},
		{"no TLS offered", trusting, open.plain, map[string]any{"use_tls": true}, "The mail server does not offer STARTTLS."},
		{"the password is not sent in the clear", trusting, secured.plain, with(map[string]any{"use_tls": false}), "The mail server offers no login method, or none that is safe without TLS."},
		{"wrong password", trusting, secured.plain, with(map[string]any{"password": "wrong"}), "The mail server refused the user and password (535)."},
		{"no login", trusting, secured.plain, map[string]any{"use_tls": true}, "The mail server refused the message (550)."},
		{"unknown authority", outbound.New(h.Host), secured.plain, login, "Its certificate is from an authority that this gateway does not trust."},
		{"unknown authority, implicit", outbound.New(h.Host), secured.implicit, with(map[string]any{"implicit_tls": true}), "Its certificate is from an authority that this gateway does not trust."},
		{"another protocol", trusting, secured.plain, with(map[string]any{"implicit_tls": true}), "It does not speak TLS."},
		{"no listener", trusting, freePort(t), nil, "It refuses the connection: nothing listens there, or a firewall is in between."},
	} {
		if output := send(c.door, c.port, c.settings); output != c.says {
			t.Errorf("%s: %q", c.name, output)
		}
	}
}
