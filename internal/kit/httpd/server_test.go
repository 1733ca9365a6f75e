package httpd

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A socket never has wider permissions than its mode, not even between its creation and chmod.
func TestSocketIsNarrowFromTheStart(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "x.sock")
	l, err := bindUnix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// served serves one answer over a unix socket with small buffers to a reader that the test supplies.
func served(t *testing.T, body []byte, within time.Duration, read func(r io.Reader)) (wrote chan error) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "x.sock"))
	if err != nil {
		t.Fatal(err)
	}
	wrote = make(chan error, 1)
	server := &http.Server{Handler: unhurried(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(body)
		wrote <- err
	}), within)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	read(conn)
	return wrote
}

// A reader that stops reading is disconnected.
func TestReaderWhoTakesNothing(t *testing.T) {
	wrote := served(t, make([]byte, 16<<20), 100*time.Millisecond, func(io.Reader) {})
	select {
	case err := <-wrote:
		if err == nil {
			t.Error("all of it went somewhere")
		}
	case <-time.After(30 * time.Second):
		t.Error("it is served for ever")
	}
}

// A slow reader gets everything, however long that takes.
func TestReaderWhoIsSlow(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 2<<20/16)
	wrote := served(t, body, 2*time.Second, func(r io.Reader) {
		res, err := http.ReadResponse(bufio.NewReader(r), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := new(bytes.Buffer)
		for err == nil {
			time.Sleep(100 * time.Millisecond)
			_, err = io.CopyN(got, res.Body, 64<<10)
		}
		if err != io.EOF || !bytes.Equal(got.Bytes(), body) {
			t.Errorf("%d bytes, %v", got.Len(), err)
		}
	})
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}
