package spoe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"
	"time"
)

// The types of frames.
const (
	frameFragment   = 0
	frameHello      = 1
	frameDisconnect = 2
	frameNotify     = 3

	frameAgentHello      = 101
	frameAgentDisconnect = 102
	frameAck             = 103
)

const (
	flagFin = 1

	lengthSize = 4
	// minFrame is the frame size that every peer must support.
	minFrame = 256
	// helloFrame is the maximum size of a frame before a size is agreed on. HAProxy's is below 200 bytes.
	helloFrame = 4096
)

// status is the reason for the end of a connection, in the protocol's numbers.
type status uint32

const (
	statusNormal       status = 0
	statusTimeout      status = 2
	statusTooBig       status = 3
	statusInvalid      status = 4
	statusNoVersion    status = 5
	statusNoSize       status = 6
	statusNoCapability status = 7
	statusVersion      status = 8
	statusSize         status = 9
	statusFragment     status = 10
)

// breach is a peer's violation of the protocol. It ends the connection, and is reported to the peer.
type breach struct {
	status status
	why    string
}

func (b *breach) Error() string { return b.why }

func invalid(err error) error { return &breach{statusInvalid, err.Error()} }

// frame is a received frame without its length.
type frame struct {
	kind          byte
	stream, frame uint64
	payload       []byte
}

func parseFrame(b []byte) (f frame, err error) {
	if len(b) < 5 {
		return f, invalid(errShort)
	}
	f.kind = b[0]
	// HAProxy only sends fragments to an agent that announced support. Without the flag, or with the one that aborts fragments, half a
	// request could be mistaken for a whole.
	if flags := binary.BigEndian.Uint32(b[1:]); flags != flagFin || f.kind == frameFragment {
		return f, &breach{statusFragment, "fragments are not supported"}
	}
	b = b[5:]
	if f.stream, b, err = varint(b); err != nil {
		return f, invalid(err)
	}
	if f.frame, f.payload, err = varint(b); err != nil {
		return f, invalid(err)
	}
	return f, nil
}

// hello is HAProxy's first frame.
type hello struct {
	size       uint64
	check      bool // only to check whether the agent is alive
	pipelining bool
}

func parseHello(b []byte) (h hello, err error) {
	f, err := parseFrame(b)
	if err != nil {
		return h, err
	}
	if f.kind != frameHello || f.stream != 0 || f.frame != 0 {
		return h, &breach{statusInvalid, "the first frame is no hello"}
	}
	var version, size, capabilities bool
	for b = f.payload; len(b) > 0; {
		var name []byte
		var v Value
		if name, v, b, err = item(b); err != nil {
			return h, invalid(err)
		}
		switch string(name) {
		case "supported-versions":
			if version = v.kind == String; version && !speaks2(v.bytes) {
				return h, &breach{statusVersion, "only version 2.0 of the protocol is spoken here"}
			}
		case "max-frame-size":
			size = v.kind == Uint32 || v.kind == Int32 || v.kind == Uint64 || v.kind == Int64
			h.size = v.number
		case "capabilities":
			capabilities = v.kind == String
			for c := range bytes.SplitSeq(v.bytes, []byte(",")) {
				h.pipelining = h.pipelining || string(bytes.TrimSpace(c)) == "pipelining"
			}
		case "healthcheck":
			h.check = v.Bool()
		}
	}
	switch {
	case !version:
		return h, &breach{statusNoVersion, "the hello names no versions"}
	case !size:
		return h, &breach{statusNoSize, "the hello names no max-frame-size"}
	case !capabilities:
		return h, &breach{statusNoCapability, "the hello names no capabilities"}
	case h.size < minFrame:
		return h, &breach{statusSize, fmt.Sprintf("a max-frame-size of %d is too small", h.size)}
	}
	return h, nil
}

// speaks2 reports whether a list of versions has a 2. Each includes its lower minor versions, so every 2.x includes 2.0.
func speaks2(versions []byte) bool {
	for v := range bytes.SplitSeq(versions, []byte(",")) {
		major, minor, ok := bytes.Cut(bytes.TrimSpace(v), []byte("."))
		if _, err := strconv.ParseUint(string(minor), 10, 16); ok && err == nil && string(major) == "2" {
			return true
		}
	}
	return false
}

func agentHello(size uint64, pipelining bool) []byte {
	b := appendHead(nil, frameAgentHello, 0, 0)
	b = appendItem(b, "version", "2.0")
	b = append(AppendText(b, "max-frame-size"), byte(Uint32))
	b = AppendVarint(b, size)
	// Never async: HAProxy loses such exchanges when it reloads. Never fragmentation: half a request cannot be inspected.
	capabilities := ""
	if pipelining {
		capabilities = "pipelining"
	}
	return seal(appendItem(b, "capabilities", capabilities))
}

func agentDisconnect(s status, why string) []byte {
	b := append(AppendText(appendHead(nil, frameAgentDisconnect, 0, 0), "status-code"), byte(Uint32))
	b = AppendVarint(b, uint64(s))
	const most = 128 // HAProxy accepts up to 255
	return seal(appendItem(b, "message", why[:min(len(why), most)]))
}

func appendItem(b []byte, name, text string) []byte {
	return AppendText(append(AppendText(b, name), byte(String)), text)
}

// Notify is HAProxy's message about one stream, which needs an answer. It and everything reached through it are part of the frame, and
// are only valid until the handler returns.
type Notify struct {
	// Received is when the frame was complete.
	Received time.Time

	stream, frame uint64
	payload       []byte // checked: reading it again cannot fail
}

// parseNotify checks the whole frame, so that reading it later cannot fail.
func parseNotify(f frame) (n Notify, err error) {
	n = Notify{stream: f.stream, frame: f.frame, payload: f.payload}
	for b := f.payload; len(b) > 0; {
		if _, b, err = counted(b); err != nil {
			return n, invalid(err)
		}
		if len(b) == 0 {
			return n, invalid(errRequired)
		}
		args := b[0]
		for b = b[1:]; args > 0; args-- {
			if _, _, b, err = item(b); err != nil {
				return n, invalid(err)
			}
		}
	}
	return n, nil
}

// Message is one of the messages defined in HAProxy's configuration.
type Message struct {
	name []byte
	args byte
	list []byte // the arguments and what follows them
}

// Messages returns the messages of the notification, in order.
func (n *Notify) Messages() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for b := n.payload; len(b) > 0; {
			name, rest, _ := counted(b)
			m := Message{name, rest[0], rest[1:]}
			if !yield(m) {
				return
			}
			b = m.list
			for range m.args {
				_, _, b, _ = item(b)
			}
		}
	}
}

// Name returns the message's name in the configuration.
func (m Message) Name() []byte { return m.name }

// Args returns the message's arguments with their names, in order.
func (m Message) Args() iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		b := m.list
		for range m.args {
			var name []byte
			var v Value
			if name, v, b, _ = item(b); !yield(name, v) {
				return
			}
		}
	}
}
