// Package offsite runs the servers that archives are sent to, for tests: a real S3 service and a real sshd, on loopback.
package offsite

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/packaging"
)

// S3 is a running versitygw with one bucket.
type S3 struct {
	Endpoint, Bucket, AccessKey, SecretKey string
	// Dir is where the bucket's objects are, as files.
	Dir string
	// CA is the certificate of the server in PEM; empty without TLS.
	CA string
}

// NewS3 starts the service. With TLS its certificate is its own.
func NewS3(t testing.TB, withTLS bool) *S3 {
	t.Helper()
	root := t.TempDir()
	s := &S3{Endpoint: address(t), Bucket: "backups", AccessKey: "gateway", SecretKey: "correct-horse-battery", Dir: filepath.Join(root, "data", "backups")}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"--port", s.Endpoint, "--access", s.AccessKey, "--secret", s.SecretKey, "--quiet"}
	if withTLS {
		cert, key := pair(t, root)
		b, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		s.CA = string(b)
		args = append(args, "--cert", cert, "--key", key)
	}
	// Metadata of objects is stored separately, because not every file system supports it as attributes.
	notes := filepath.Join(root, "notes")
	if err := os.Mkdir(notes, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, s.Endpoint, Tool(t), append(args, "posix", "--sidecar", notes, filepath.Dir(s.Dir))...)
	return s
}

// Settings are those of a target for it.
func (s *S3) Settings() map[string]any {
	return map[string]any{
		"endpoint": s.Endpoint, "bucket": s.Bucket, "access_key": s.AccessKey, "secret_key": s.SecretKey, "https": s.CA != "", "ca_certificate": s.CA,
	}
}

// SSHD is a running OpenSSH server that serves SFTP to the user of the test, by key.
type SSHD struct {
	Host string
	Port int
	User string
	// Key is the user's private key in the format that a target accepts.
	Key string
	// Dir is a folder for archives.
	Dir string
	// Fingerprint is that of the key that it shows.
	Fingerprint string

	t    testing.TB
	root string
	stop func()
	log  *log
}

// Log is the server's output since its last start.
func (s *SSHD) Log() string { return s.log.String() }

// FileLog is what was done to files.
func (s *SSHD) FileLog() string {
	s.t.Helper()
	files, err := os.ReadFile(filepath.Join(s.root, "sftp.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(files)
}

// log collects a server's output while it runs.
type log struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// NewSSHD starts the server on loopback.
func NewSSHD(t testing.TB) *SSHD {
	t.Helper()
	free, err := net.ResolveTCPAddr("tcp", address(t))
	if err != nil {
		t.Fatal(err)
	}
	s := SSHDAt(t, "127.0.0.1", free.Port)
	s.start()
	return s
}

// privileges is where the server leaves its own.
const privileges = "/run/sshd"

// SSHDAt is a server that the caller starts, by its command.
func SSHDAt(t testing.TB, host string, port int) *SSHD {
	t.Helper()
	root := t.TempDir()
	s := &SSHD{Host: host, Port: port, User: "root", Dir: filepath.Join(root, "files"), t: t, root: root}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	private, public := s.key("user")
	s.Key = base64.StdEncoding.EncodeToString(private)
	s.write("authorized_keys", ssh.MarshalAuthorizedKey(public))
	s.write("sshd_config", fmt.Appendf(nil, `ListenAddress %[1]s:%[2]d
HostKey %[3]s/host
AuthorizedKeysFile %[3]s/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
Subsystem sftp /usr/lib/openssh/sftp-server -e -l VERBOSE 2>>%[3]s/sftp.log
LogLevel VERBOSE
`, s.Host, s.Port, s.root))
	s.newHostKey()
	return s
}

func (s *SSHD) newHostKey() {
	s.t.Helper()
	_, public := s.key("host")
	s.Fingerprint = ssh.FingerprintSHA256(public)
}

// Command starts the server.
func (s *SSHD) Command() []string {
	return []string{"sh", "-c", `mkdir -p ` + privileges + ` && exec /usr/sbin/sshd -D -e -f "$0"`, filepath.Join(s.root, "sshd_config")}
}

func (s *SSHD) start() {
	s.t.Helper()
	argv := s.Command()
	s.log, s.stop = run(s.t, net.JoinHostPort(s.Host, fmt.Sprint(s.Port)), argv[0], argv[1:]...)
}

// ChangeKey starts the server again with another host key.
func (s *SSHD) ChangeKey() {
	s.t.Helper()
	s.stop()
	s.newHostKey()
	s.start()
}

// Settings are those of a target for it.
func (s *SSHD) Settings() map[string]any {
	return map[string]any{"host": s.Host, "port": s.Port, "username": s.User, "private_key": s.Key, "remote_dir": s.Dir}
}

func (s *SSHD) key(name string) ([]byte, ssh.PublicKey) {
	s.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		s.t.Fatal(err)
	}
	encoded := pem.EncodeToMemory(block)
	s.write(name, encoded)
	return encoded, key
}

func (s *SSHD) write(name string, content []byte) string {
	s.t.Helper()
	path := filepath.Join(s.root, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// Tool is the S3 server.
func Tool(t testing.TB) string {
	t.Helper()
	path, err := packaging.Path("tool.sh", "versitygw")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// address is one on loopback at which nothing listens.
func address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run starts a server, and waits until it listens.
func run(t testing.TB, address, program string, args ...string) (out *log, stop func()) {
	t.Helper()
	out = new(log)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	stop = sync.OnceFunc(func() { _ = cmd.Process.Kill(); <-ended })
	t.Cleanup(stop)
	waittest.UntilNil(t, program+" listens", func() error {
		select {
		case <-ended:
			t.Fatalf("%s ended: %s", program, out)
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return conn.Close()
	})
	return out, stop
}
