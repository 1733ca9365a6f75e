package waf

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// origin is the server of all sites, and reports which requests reached it. It accepts everything, as the core rule set's tests require: Go's
// own server would refuse some.
type origin struct {
	at   *net.TCPAddr
	mu   sync.Mutex
	seen []string
}

func (o *origin) reached() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.seen)
}

func serve(t *testing.T) *origin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{at: l.Addr().(*net.TCPAddr)}
	var open sync.WaitGroup
	t.Cleanup(func() { l.Close(); open.Wait() })
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { defer conn.Close(); o.talk(conn) })
		}
	})
	return o
}

// talk answers the requests of one connection, in the form in which HAProxy passes them on.
func (o *origin) talk(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		method, rest, _ := strings.Cut(line, " ")
		uri, _, _ := strings.Cut(rest, " ")
		header, err := fields(in)
		if err != nil {
			return
		}
		length, _ := strconv.Atoi(header.Get("Content-Length"))
		body := make([]byte, length)
		if header.Get("Transfer-Encoding") != "" {
			if body, err = io.ReadAll(httputil.NewChunkedReader(in)); err == nil {
				_, err = fields(in) // the trailers
			}
		} else {
			_, err = io.ReadFull(in, body)
		}
		if err != nil {
			return
		}
		o.mu.Lock()
		o.seen = append(o.seen, header.Get("Host")+" "+uri)
		o.mu.Unlock()
		said := httptest.NewRecorder()
		reply(said, uri, header, body)
		res := said.Result()
		res.Request, res.ContentLength = &http.Request{Method: method}, int64(said.Body.Len())
		if res.Write(conn) != nil {
			return
		}
	}
}

// fields reads fields until there is a line without one.
func fields(in *bufio.Reader) (http.Header, error) {
	header := http.Header{}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok {
			return header, nil
		}
		header.Add(name, strings.TrimSpace(value))
	}
}

// reply is a site's response at a path. At /reflect and /post it is what the rule set's tests specify.
func reply(w http.ResponseWriter, uri string, header http.Header, body []byte) {
	said := struct {
		Status  int
		Headers map[string]string
		Body    string
	}{}
	switch uri {
	case "/leak":
		said.Headers, said.Body = map[string]string{"Content-Type": "text/html"}, "<?php echo 1 ?>"
	case "/long":
		said.Headers, said.Body = map[string]string{"Content-Type": "text/html"}, strings.Repeat("lorem ipsum ", 50_000)
	case "/events":
		said.Headers, said.Body = map[string]string{"Content-Type": "text/event-stream"}, "data: <?php echo 1 ?>"
	case "/post":
		said.Body = string(body)
	case "/reflect":
		if json.Unmarshal(body, &said) != nil {
			said.Status = http.StatusBadRequest
		}
	default:
		said.Body = fmt.Sprintf("the origin got %d bytes, accepts=%q, te=%q, for=%q",
			len(body), header.Get("Accept-Encoding"), header.Get("Te"), header.Get("X-Forwarded-For"))
	}
	w.Header().Set("Server", "origin")
	w.Header().Set("Content-Type", http.DetectContentType([]byte(said.Body)))
	for name, value := range said.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(cmp.Or(said.Status, http.StatusOK))
	_, _ = io.WriteString(w, said.Body)
}
