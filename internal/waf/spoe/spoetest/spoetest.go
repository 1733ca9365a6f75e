// Package spoetest queries an agent like HAProxy, for tests without HAProxy.
package spoetest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"edge.internal/gateway/internal/waf/spoe"
)

// Client is a connection after the hello. It has one question outstanding at a time.
type Client struct {
	net.Conn
	stream uint64
}

// Arg is an argument of a message. Its value is a bool, an int, a string, []byte, a netip.Addr or nil.
type Arg struct {
	Name  string
	Value any
}

const maxFrame = 131064

// Dial connects to an agent. The connection ends with the test.
func Dial(t testing.TB, address string) *Client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &Client{Conn: conn}
	b := appendArg(head(1, 0), Arg{"supported-versions", "2.0"})
	b = appendArg(appendArg(b, Arg{"max-frame-size", maxFrame}), Arg{"capabilities", "pipelining"})
	answer, err := c.exchange(b)
	if err != nil || answer[0] != 101 {
		t.Fatalf("hello: %q, %v", answer, err)
	}
	return c
}

// Ask sends a message and returns the variables that the agent sets, by name.
func (c *Client) Ask(message string, args ...Arg) (map[string]any, error) {
	c.stream++
	b := append(spoe.AppendText(head(3, c.stream), message), byte(len(args)))
	for _, a := range args {
		b = appendArg(b, a)
	}
	answer, err := c.exchange(b)
	if err != nil {
		return nil, err
	}
	want := head(103, c.stream)[4:]
	if len(answer) < len(want) || string(answer[:len(want)]) != string(want) {
		return nil, fmt.Errorf("this is no answer to the question: %q", answer)
	}
	return variables(answer[len(want):])
}

// head begins a frame, with room for its length.
func head(kind byte, stream uint64) []byte {
	b := spoe.AppendVarint([]byte{0, 0, 0, 0, kind, 0, 0, 0, 1}, stream)
	return spoe.AppendVarint(b, min(stream, 1))
}

func (c *Client) exchange(b []byte) ([]byte, error) {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n == 0 || n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(c, answer)
	return answer, err
}

func appendArg(b []byte, a Arg) []byte {
	b = spoe.AppendText(b, a.Name)
	switch v := a.Value.(type) {
	case nil:
		return append(b, byte(spoe.Null))
	case bool:
		if v {
			return append(b, byte(spoe.Bool)|0x10)
		}
		return append(b, byte(spoe.Bool))
	case int:
		return spoe.AppendVarint(append(b, byte(spoe.Int64)), uint64(v))
	case string:
		return spoe.AppendText(append(b, byte(spoe.String)), v)
	case []byte:
		return spoe.AppendText(append(b, byte(spoe.Binary)), v)
	case netip.Addr:
		kind := spoe.IPv6
		if v.Is4() {
			kind = spoe.IPv4
		}
		return append(append(b, byte(kind)), v.AsSlice()...)
	}
	panic(fmt.Sprintf("an argument of type %T", a.Value))
}

// variables parses a list of actions that set transaction variables to texts and numbers.
func variables(b []byte) (map[string]any, error) {
	set := map[string]any{}
	for len(b) > 0 {
		if len(b) < 3 || b[0] != 1 || b[1] != 3 || b[2] != byte(spoe.Transaction) {
			return nil, fmt.Errorf("no variable of the transaction is set: %q", b)
		}
		name, rest, ok := spoe.Text(b[3:])
		if !ok || len(rest) == 0 {
			return nil, fmt.Errorf("an action is cut: %q", b)
		}
		kind, text, n := spoe.Kind(rest[0]), []byte(nil), uint64(0)
		switch kind {
		case spoe.String:
			text, b, ok = spoe.Text(rest[1:])
			set[string(name)] = string(text)
		case spoe.Int64:
			n, b, ok = spoe.Varint(rest[1:])
			set[string(name)] = int(n)
		default:
			return nil, fmt.Errorf("%s is of kind %d", name, kind)
		}
		if !ok {
			return nil, fmt.Errorf("%s is cut", name)
		}
	}
	return set, nil
}

// Block encodes a header like HAProxy's req.hdrs_bin, from alternating names and values.
func Block(fields ...string) []byte {
	b := []byte{}
	for _, f := range fields {
		b = spoe.AppendText(b, f)
	}
	return append(b, 0, 0)
}
