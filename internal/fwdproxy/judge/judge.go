// Package judge is the program that squid asks about every request. It keeps the access list in memory, so that squid need not know about
// changes of the list. It denies what it does not understand, and everything before it has a list.
package judge

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edge.internal/gateway/internal/fwdproxy/verdict"
)

// Options say where things are.
type Options struct {
	// Configuration identifies the squid configuration that started this judge.
	Configuration string
	// List is the file of the access list.
	List string
	// Socket is where the gateway announces that the list has changed.
	Socket string
	Now    func() time.Time
}

// judge has a list, or does not have one yet.
type judge struct {
	Options
	loading sync.Mutex
	current atomic.Pointer[loaded]
}

// loaded is a list with the digest of its file.
type loaded struct {
	*verdict.List
	digest string
}

// Run answers the questions on in until its end. Errors that do not stop it go to log.
func Run(o Options, in io.Reader, out io.Writer, log io.Writer) error {
	j := &judge{Options: o}
	if err := j.load(); err != nil {
		fmt.Fprintln(log, "gateway-acl: every request is denied:", err)
	}
	if l, err := listen(o.Socket); err != nil {
		fmt.Fprintln(log, "gateway-acl: changes of the list will not be noticed:", err)
	} else {
		defer l.Close()
		go j.serve(l)
	}
	return j.answer(in, out)
}

// load reads the list. If it cannot be read, the present one stays.
func (j *judge) load() error {
	j.loading.Lock()
	defer j.loading.Unlock()
	content, err := os.ReadFile(j.List)
	if err != nil {
		return err
	}
	list, err := verdict.Read(content)
	if err != nil {
		return err
	}
	j.current.Store(&loaded{list, verdict.Digest(content)})
	return nil
}

// longest is the maximum length of a question: squid accepts URLs of up to 8 KiB, and quoting triples a character.
const longest = 64 << 10

// answer answers squid's questions, several at a time if they are available.
func (j *judge) answer(in io.Reader, out io.Writer) error {
	reader, writer := bufio.NewReaderSize(in, longest), bufio.NewWriter(out)
	for {
		line, err := reader.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return writer.Flush()
		}
		if err != nil {
			return err // squid starts another one, and denies in the meantime
		}
		channel, question, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(" "))
		if _, err := fmt.Fprintf(writer, "%s %s\n", channel, j.judge(string(question))); err != nil {
			return err
		}
		if reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
	}
}

// judge returns the answer to one question. Only an answer that begins with OK and has a verdict known to squid's configuration lets a
// request through.
func (j *judge) judge(question string) string {
	list := j.current.Load()
	if list == nil {
		return `BH message="there is no access list"`
	}
	request, err := parse(question)
	if err != nil {
		return `BH message="the question is not understood"`
	}
	request.At = j.Now()
	v := list.Judge(request)
	answer := "OK " + verdict.Note + "=" + list.Layout
	switch {
	case !v.Decided:
		return answer + "-pass"
	case v.Allow:
		return answer + "-allow-" + strconv.Itoa(v.Position)
	}
	return answer + "-deny-" + strconv.Itoa(v.Position)
}

// parse parses a question: source, method, host, port and URL, each URL-quoted, and squid's mark that there is nothing else.
func parse(question string) (*verdict.Request, error) {
	words := strings.Split(question, " ")
	if len(words) != 6 || words[5] != "-" {
		return nil, errors.New("not six words")
	}
	for i, word := range words {
		words[i] = unescape(word)
	}
	source, err := netip.ParseAddr(words[0])
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(words[3], 10, 16)
	if err != nil {
		return nil, err
	}
	host := strings.ToLower(strings.TrimSuffix(strings.Trim(words[2], "[]"), "."))
	if host == "" || words[1] == "" || words[4] == "" {
		return nil, errors.New("something is missing")
	}
	return &verdict.Request{Source: source.Unmap().WithZone(""), Method: strings.ToUpper(words[1]), Host: host, Port: int(port), URL: words[4]}, nil
}

// unescape decodes what it can: a URL may contain a meaningless percent sign.
func unescape(text string) string {
	var b strings.Builder
	for text != "" {
		before, after, found := strings.Cut(text, "%")
		b.WriteString(before)
		if !found {
			break
		}
		text = after
		if len(after) < 2 {
			b.WriteByte('%')
			continue
		}
		n, err := strconv.ParseUint(after[:2], 16, 8)
		if err != nil {
			b.WriteByte('%')
			continue
		}
		b.WriteByte(byte(n))
		text = after[2:]
	}
	return b.String()
}

// listen creates the socket under another name first, because an ending judge may still have the place, and nobody must see it before it
// has its mode.
func listen(path string) (net.Listener, error) {
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // by then it belongs to another process
	if err = os.Chmod(fresh, 0o660); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		_ = l.Close()
		os.Remove(fresh)
		return nil, err
	}
	return l, nil
}

// askWithin is how long a client may take to send its command.
const askWithin = 5 * time.Second

// serve answers the gateway.
func (j *judge) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(askWithin))
			command, err := bufio.NewReader(io.LimitReader(conn, 64)).ReadString('\n')
			if err == nil {
				_, _ = io.WriteString(conn, j.command(strings.TrimSpace(command))+"\n")
			}
		}()
	}
}

// command runs a command of the gateway, and returns the identities of squid's configuration and of the list.
func (j *judge) command(command string) string {
	switch command {
	case "reload":
		if err := j.load(); err != nil {
			return "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
	case "state":
	default:
		return "error no such command"
	}
	digest := "-"
	if list := j.current.Load(); list != nil {
		digest = list.digest
	}
	return "ok " + j.Configuration + " " + digest
}
