package agent

import (
	"net/netip"
	"strings"

	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe"
)

// The names of the messages in HAProxy's configuration.
const aboutRequest, aboutResponse = "waf-req", "waf-res"

// message is HAProxy's message about a request, or about a response with what it still knows of the request. Its bytes are part of the
// frame.
type message struct {
	response                               bool
	status                                 int
	client, host                           []byte
	id, domain, method, url, version, body []byte
	header                                 []engine.Field
	src, dst                               netip.Addr
	sport, dport                           uint16
	complete                               bool
}

// read parses a message. It returns false if something is missing without which the request would not be inspected completely: HAProxy
// sends null for what it could not fetch, such as a header that did not fit.
func read(n *spoe.Notify) (m message, ok bool) {
	var header, body spoe.Value
	for msg := range n.Messages() {
		m.response = string(msg.Name()) == aboutResponse
		if !m.response && string(msg.Name()) != aboutRequest {
			continue
		}
		for name, v := range msg.Args() {
			switch string(name) {
			case "id":
				m.id = v.Bytes()
			case "domain":
				m.domain = v.Bytes()
			case "src":
				m.src = v.Addr().Unmap()
			case "sport":
				m.sport = uint16(v.Int())
			case "dst":
				m.dst = v.Addr().Unmap()
			case "dport":
				m.dport = uint16(v.Int())
			case "method":
				m.method = v.Bytes()
			case "url":
				m.url = v.Bytes()
			case "ver":
				m.version = v.Bytes()
			case "hdrs":
				header = v
			case "body":
				body = v
			case "eom":
				m.complete = v.Bool()
			case "status":
				m.status = int(v.Int())
			case "client":
				m.client = v.Bytes()
			case "host":
				m.host = v.Bytes()
			}
		}
		break
	}
	if header.Kind() != spoe.Binary || body.Kind() != spoe.Binary || len(m.method) == 0 || len(m.url) == 0 || !m.src.IsValid() {
		return m, false
	}
	m.body = body.Bytes()
	m.header, ok = fields(header.Bytes())
	return m, ok
}

// fields parses the output of HAProxy's req.hdrs_bin: names and values with their lengths, and an empty pair at the end. All share one
// copy of the block.
func fields(block []byte) ([]engine.Field, bool) {
	count := 0
	for rest := block; ; count++ {
		name, after, ok := spoe.Text(rest)
		if !ok {
			return nil, false
		}
		value, after, ok := spoe.Text(after)
		if !ok || len(name) == 0 && len(value)+len(after) > 0 {
			return nil, false
		}
		if len(name) == 0 {
			break
		}
		rest = after
	}
	text, list := string(block), make([]engine.Field, 0, count)
	part := func(b, after []byte) string { // b is before after, which reaches to the end
		end := len(block) - len(after)
		return text[end-len(b) : end]
	}
	for rest := block; len(list) < count; {
		name, after, _ := spoe.Text(rest)
		value, next, _ := spoe.Text(after)
		list = append(list, engine.Field{Name: part(name, after), Value: part(value, next)})
		rest = next
	}
	return list, true
}

// request converts the message for the engine. It only refers to the frame for the body.
func (m *message) request(d *Domain) *engine.Request {
	source := netip.AddrPortFrom(m.src, m.sport)
	if client := client(m.src, m.header, d.Trusted); client != m.src {
		source = netip.AddrPortFrom(client, 0) // the port is the proxy's
	}
	r := &engine.Request{
		ID: string(m.id), Domain: d.ID,
		Source: source, Destination: netip.AddrPortFrom(m.dst, m.dport),
		Method: method(m.method), URI: string(m.url), Version: version(m.version),
		Header: m.header, Body: m.body, Complete: m.complete,
	}
	if m.response {
		// The client was determined with the request.
		if client, ok := address(string(m.client)); ok {
			r.Source = netip.AddrPortFrom(client, 0)
		}
		r.Header, r.Body, r.Version = []engine.Field{{Name: "host", Value: string(m.host)}}, nil, "HTTP/1.1"
	}
	return r
}

func (m *message) answer() *engine.Response {
	return &engine.Response{Status: m.status, Version: version(m.version), Header: m.header, Body: m.body, Complete: m.complete}
}

// method and version allocate nothing for common values.
func method(b []byte) string {
	switch string(b) {
	case "GET":
		return "GET"
	case "POST":
		return "POST"
	case "HEAD":
		return "HEAD"
	case "PUT":
		return "PUT"
	case "OPTIONS":
		return "OPTIONS"
	}
	return string(b)
}

func version(b []byte) string {
	switch string(b) {
	case "1.1":
		return "HTTP/1.1"
	case "2.0":
		return "HTTP/2.0"
	}
	return "HTTP/" + string(b)
}

// client returns the client: the peer, unless it is a trusted proxy. Then X-Forwarded-For is read from the right, where the nearest proxy
// wrote; trusted proxies are skipped, and the first other address is the client. Anyone may have written what is left of an invalid
// entry, so in that case the proxy that passed it on is all that is known.
func client(peer netip.Addr, header []engine.Field, trusted []netip.Prefix) netip.Addr {
	if !contains(trusted, peer) {
		return peer
	}
	at := peer
	for i := len(header) - 1; i >= 0; i-- {
		if !strings.EqualFold(header[i].Name, "x-forwarded-for") {
			continue
		}
		for left, more := header[i].Value, true; more; {
			var entry string
			if comma := strings.LastIndexByte(left, ','); comma >= 0 {
				left, entry = left[:comma], left[comma+1:]
			} else {
				entry, more = left, false
			}
			addr, ok := address(strings.Trim(entry, " \t"))
			if !ok {
				return at
			}
			if at = addr; !contains(trusted, at) {
				return at
			}
		}
	}
	return at
}

func contains(list []netip.Prefix, addr netip.Addr) bool {
	for _, p := range list {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// address parses an entry: an address, with or without a port.
func address(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return addr, false
		}
		addr = withPort.Addr()
	}
	return addr.Unmap(), addr.Zone() == ""
}
