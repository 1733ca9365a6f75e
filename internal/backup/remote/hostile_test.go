package remote_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/test/offsite"
)

// A server whose key has changed gets no credentials until the operator trusts the new key.
func TestChangedHostKeyIsRefused(t *testing.T) {
	t.Parallel()
	sshd := offsite.NewSSHD(t)
	h := newHouse(t)
	v := h.add(t, "sftp", sshd.Settings())
	if v.Settings["host_key_fingerprint"] != "" {
		t.Fatalf("%v", v.Settings)
	}
	// Trust on first use: the first successful connection stores the key, once, and it is in the audit log.
	for range 2 {
		if x := h.test(t, v.ID); !x.OK {
			t.Fatalf("%+v", x)
		}
	}
	if got := h.get(t, v.ID).Settings["host_key_fingerprint"]; got != sshd.Fingerprint {
		t.Fatalf("%v instead of %s", got, sshd.Fingerprint)
	}
	if n := h.Audited(t, "backup.remote.update"); n != 1 {
		t.Errorf("%d entries", n)
	}
	sshd.ChangeKey()
	if x := h.test(t, v.ID); x.OK || !strings.Contains(x.failure(), "key has changed (it is "+sshd.Fingerprint+" now)") {
		t.Errorf("%+v", x)
	}
	result := h.upload(t, newArchive(t, []byte("archive")), "a.tar")[0]
	if result.OK || result.Attempts != 1 || !strings.Contains(result.Error, "key has changed") {
		t.Errorf("%+v", result)
	}
	// The server has seen neither a user nor a public key.
	if log := sshd.Log(); strings.Contains(log, "publickey") || strings.Contains(log, "Accepted") || strings.Contains(log, " user ") {
		t.Errorf("%s", log)
	}
	if list := h.archives(t, v.ID); !strings.Contains(list.Error, "key has changed") {
		t.Errorf("%+v", list)
	}
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+v.ID, map[string]any{"settings": map[string]any{"host_key_fingerprint": ""}}).Want(t, http.StatusOK)
	if x := h.test(t, v.ID); !x.OK {
		t.Errorf("%+v", x)
	}
	if got := h.get(t, v.ID).Settings["host_key_fingerprint"]; got != sshd.Fingerprint {
		t.Errorf("%v instead of %s", got, sshd.Fingerprint)
	}
}

// server is an SSH server under the test's control.
type server struct {
	address   string
	passwords func() int // how often it received one
}

// newServer serves SFTP with these handlers to every client that has the password.
func newServer(t *testing.T, handlers sftp.Handlers, keys ...ssh.Signer) *server {
	t.Helper()
	var mu sync.Mutex
	heard := 0
	config := &ssh.ServerConfig{
		PasswordCallback: func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			mu.Lock()
			defer mu.Unlock()
			heard++
			if string(password) != "sesame" {
				return nil, errors.New("canary: wrong")
			}
			return nil, nil
		},
		BannerCallback: func(ssh.ConnMetadata) string { return "canary banner" },
	}
	for _, key := range keys {
		config.AddHostKey(key)
	}
	s := &server{address: listen(t, func(conn net.Conn) {
		_, channels, requests, err := ssh.NewServerConn(conn, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for c := range channels {
			channel, requests, err := c.Accept()
			if err != nil {
				return
			}
			go func() {
				for r := range requests {
					_ = r.Reply(r.Type == "subsystem", nil)
				}
			}()
			_ = sftp.NewRequestServer(channel, handlers).Serve()
		}
	})}
	s.passwords = func() int {
		mu.Lock()
		defer mu.Unlock()
		return heard
	}
	return s
}

// listen serves connections until the test ends.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			all.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}

func settingsOf(t *testing.T, address string) map[string]any {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"host": a.IP.String(), "port": a.Port, "username": "backup", "password": "sesame"}
}

func ed25519Key(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return signer(t, key, err)
}

func signer(t *testing.T, key any, err error) ssh.Signer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A server with another key never receives the password. If a server has several keys, the stored one is found.
func TestPasswordIsNotToldToAnotherServer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	oldKey, newKey := signer(t, old, err), ed25519Key(t)
	s := newServer(t, sftp.InMemHandler(), newKey, oldKey)
	settings := settingsOf(t, s.address)
	settings["host_key_fingerprint"] = ssh.FingerprintSHA256(oldKey.PublicKey())
	if x := h.test(t, h.add(t, "sftp", settings).ID); !x.OK || s.passwords() != 1 {
		t.Errorf("%+v, %d passwords", x, s.passwords())
	}
	settings["host_key_fingerprint"] = ssh.FingerprintSHA256(ed25519Key(t).PublicKey())
	if x := h.test(t, h.add(t, "sftp", settings).ID); x.OK || !strings.Contains(x.failure(), "Nothing was sent to it") || s.passwords() != 1 {
		t.Errorf("%+v, %d passwords", x, s.passwords())
	}
	// A server is not trusted before it accepts the login.
	settings["host_key_fingerprint"], settings["password"] = "", "wrong"
	v := h.add(t, "sftp", settings)
	if x := h.test(t, v.ID); x.OK || x.failure() != "the server does not accept the user with this password or key" {
		t.Errorf("%+v", x)
	}
	if got := h.get(t, v.ID).Settings["host_key_fingerprint"]; got != "" {
		t.Errorf("%v is trusted", got)
	}
}

// named is a file with any name.
type named string

func (n named) Name() string     { return string(n) }
func (named) Size() int64        { return 1 }
func (named) Mode() fs.FileMode  { return 0o644 }
func (named) ModTime() time.Time { return time.Unix(1, 0) }
func (named) IsDir() bool        { return false }
func (named) Sys() any           { return nil }

// lister lists what the test wants, and fails everything else.
type lister func(at int64) []os.FileInfo

func (l lister) Filelist(*sftp.Request) (sftp.ListerAt, error) { return l, nil }

func (l lister) ListAt(to []os.FileInfo, at int64) (int, error) {
	files := l(at)
	if n := copy(to, files); n > 0 {
		return n, nil
	}
	return 0, io.EOF
}

func (lister) Fileread(*sftp.Request) (io.ReaderAt, error) {
	return nil, errors.New("canary in a status")
}
func (lister) Filewrite(*sftp.Request) (io.WriterAt, error) {
	return nil, errors.New("canary in a status")
}
func (lister) Filecmd(*sftp.Request) error { return errors.New("canary in a status") }

func (l lister) handlers() sftp.Handlers {
	return sftp.Handlers{FileGet: l, FilePut: l, FileCmd: l, FileList: l}
}

// Listed names are ignored unless they are those of archives, and an endless list is abandoned.
func TestHostileListing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	names := []os.FileInfo{
		named("../../../../etc/passwd"), named("/etc/passwd"), named("gateway_../_0123456789ab_x.tar"), named("gateway_h_0123456789ab_../x"), named("gateway_h_0123456789ab_a/b"),
		named("gateway_h_0123456789ab_x\n.tar"), named("gateway_h_0123456789ab_\x1b[2J"), named("gateway_h_0123456789AB_x"), named("gateway_h_0123456789ab_"),
		named("gateway_h_0123456789ab_" + strings.Repeat("x", 5000)), named("gateway_h_0123456789ab_<img onerror>"), named(".."), named(""), named("gateway_h_0123456789ab_-rf"),
		named("gateway_h_0123456789ab_good.tar"),
	}
	s := newServer(t, lister(func(at int64) []os.FileInfo { return names[min(int(at), len(names)):] }).handlers(), ed25519Key(t))
	v := h.add(t, "sftp", settingsOf(t, s.address))
	list := h.archives(t, v.ID)
	if list.Error != "" || len(list.Archives) != 1 || list.Archives[0].Name != "good.tar" || list.Archives[0].Own {
		t.Errorf("%+v", list)
	}
	if _, _, err := h.room.Fetch(t.Context(), uuid.MustParse(v.ID), list.Archives[0].File, io.Discard, 1<<20); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
	if x := h.test(t, v.ID); x.OK || strings.Contains(x.failure(), "canary") {
		t.Errorf("%+v", x)
	}
	endless := newServer(t, lister(func(at int64) []os.FileInfo {
		files := make([]os.FileInfo, 100)
		for i := range files {
			files[i] = named(fmt.Sprintf("%s%d", strings.Repeat("x", 1000), at))
		}
		return files
	}).handlers(), ed25519Key(t))
	if list := h.archives(t, h.add(t, "sftp", settingsOf(t, endless.address)).ID); list.Error != "its answer is too long" {
		t.Errorf("%+v", list)
	}
}

// Nothing that a server says is echoed by the gateway.
func TestNothingOfTheAnswerIsEchoed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>Canary</Code><Message>canary</Message></Error>`)
	}))
	defer echo.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<html>canary") }))
	defer page.Close()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/canary", http.StatusTemporaryRedirect)
	}))
	defer away.Close()
	for _, url := range []string{echo.URL, page.URL, away.URL} {
		settings := s3Example()
		settings["endpoint"], settings["https"] = strings.TrimPrefix(url, "http://"), false
		if x := h.test(t, h.add(t, "s3", settings).ID); x.OK || x.failure() == "" || strings.Contains(strings.ToLower(x.failure()), "canary") {
			t.Errorf("%+v", x)
		}
	}
	for _, greeting := range []string{"HTTP/1.1 400 canary\r\n\r\n", "SSH-1.5-canary\r\n", "SSH-2.0-canary\r\ncanary canary canary canary\r\n", strings.Repeat("canary\r\n", 100_000)} {
		address := listen(t, func(conn net.Conn) { _, _ = io.WriteString(conn, greeting) })
		if x := h.test(t, h.add(t, "sftp", settingsOf(t, address)).ID); x.OK || x.failure() == "" || strings.Contains(x.failure(), "canary") {
			t.Errorf("%+v", x)
		}
	}
	if strings.Contains(h.Logs.String(), "canary") {
		t.Errorf("%s", h.Logs)
	}
}

// A server that stalls at any point is abandoned, and the API answers others in the meantime.
func TestServerThatStallsIsGivenUp(t *testing.T) {
	t.Parallel()
	real := offsite.NewS3(t, false)
	h := newHouse(t)
	h.room.GiveUpSoon()
	silent := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	// It accepts the session and part of the archive.
	half := listen(t, func(conn net.Conn) {
		to, err := net.Dial("tcp", real.Endpoint)
		if err != nil {
			return
		}
		defer to.Close()
		go func() { _, _ = io.Copy(conn, to) }()
		_, _ = io.CopyN(to, conn, 1<<20)
		<-t.Context().Done()
	})
	bucket := real.Settings()
	bucket["endpoint"] = silent
	stalls := real.Settings()
	stalls["endpoint"] = half
	rows := []row{h.add(t, "s3", bucket), h.add(t, "sftp", settingsOf(t, silent)), h.add(t, "s3", stalls), h.add(t, "s3", real.Settings())}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var asked sync.WaitGroup
		for _, v := range rows[:2] {
			asked.Go(func() {
				if x := h.test(t, v.ID); x.OK || x.failure() != "it did not answer in time" {
					t.Errorf("%+v", x)
				}
			})
			asked.Go(func() {
				if l := h.archives(t, v.ID); l.Error != "it did not answer in time" {
					t.Errorf("%+v", l)
				}
			})
		}
		asked.Wait()
		for i, result := range h.upload(t, newArchive(t, make([]byte, 32<<20)), "a.tar") {
			if want := i == 3; result.OK != want {
				t.Errorf("%d: %+v", i, result)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		t.Fatal("a server that stalls is waited for")
	}
}

// Targets on the machine itself, at link-local addresses and on its management ports are refused, whatever their names are.
func TestUnsafeTargets(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	b.Machine.SetLinks(host.Link{Name: "wan0", Addrs: []host.LinkAddr{{Local: "198.51.100.1"}}})
	h := mounted(t, b)
	real := offsite.NewS3(t, false)
	_, port, _ := net.SplitHostPort(real.Endpoint)
	for endpoint, want := range map[string]string{
		real.Endpoint: "this machine itself", "localhost:" + port: "this machine itself", "[::1]:" + port: "this machine itself", "0.0.0.0:" + port: "this machine itself",
		"169.254.169.254": "link-local", "198.51.100.1:3443": "management port", "198.51.100.1:5432": "management port",
	} {
		settings := real.Settings()
		settings["endpoint"] = endpoint
		v := h.add(t, "s3", settings, "allow_internal", false)
		if x := h.test(t, v.ID); x.OK || !strings.Contains(x.failure(), want) {
			t.Errorf("%s: %+v", endpoint, x)
		}
		name, number, err := net.SplitHostPort(endpoint)
		if err != nil {
			name, number = endpoint, "22"
		}
		a, err := net.LookupPort("tcp", number)
		if err != nil {
			t.Fatal(err)
		}
		v = h.add(t, "sftp", map[string]any{"host": name, "port": a, "username": "backup", "password": "sesame"}, "allow_internal", false)
		if x := h.test(t, v.ID); x.OK || !strings.Contains(x.failure(), want) {
			t.Errorf("%s: %+v", endpoint, x)
		}
	}
}
