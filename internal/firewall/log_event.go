package firewall

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

// LogEvent is one packet logged by a rule or a default drop. Its JSON is written by logEvent.append.
type LogEvent struct {
	Timestamp       time.Time `json:"timestamp" doc:"When the packet was seen."`
	RuleID          uuid.UUID `json:"rule_id,omitzero" doc:"The rule that logged it; absent for default drops."`
	Action          string    `json:"action" doc:"What was done with the packet: accept, drop or reject; empty if the rule is not known."`
	Chain           string    `json:"chain,omitempty" enum:"input,forward" doc:"Where a default drop happened; absent for rules."`
	Proto           string    `json:"proto" doc:"icmp, tcp, udp, icmpv6, or the number of another protocol."`
	Source          string    `json:"source" doc:"Source address."`
	Destination     string    `json:"destination" doc:"Destination address."`
	SourcePort      uint16    `json:"source_port,omitzero" doc:"Source port; absent where there is none."`
	DestinationPort uint16    `json:"destination_port,omitzero" doc:"Destination port; absent where there is none."`
	Interface       string    `json:"interface" doc:"Incoming interface; empty if the gateway itself sent it."`
	OutInterface    string    `json:"out_interface,omitempty" doc:"Outgoing interface; absent for packets to the gateway."`
	Size            int       `json:"size" doc:"Length of the IP packet in bytes."`
}

// logEvent is an event in the ring. Many events share its strings.
type logEvent struct {
	at               int64 // nanoseconds since 1970
	origin           *logOrigin
	in, out          string // names of interfaces as JSON; empty if there is none
	src, dst         netip.Addr
	size             int
	srcPort, dstPort uint16
	proto            uint8
}

// logOrigin is the origin of events. It never changes.
type logOrigin struct {
	rule   uuid.UUID // uuid.Nil for default drops
	action string
	json   string // the fields for it, with a trailing comma
}

// newOrigin returns the origin of a rule's events or, with a chain, of a default drop.
func newOrigin(rule uuid.UUID, action, chain string) *logOrigin {
	o := &logOrigin{rule: rule, action: action}
	if rule != uuid.Nil {
		o.json = `"rule_id":"` + rule.String() + `",`
	}
	o.json += `"action":` + quoted(action) + `,`
	if chain != "" {
		o.json += `"chain":"` + chain + `",`
	}
	return o
}

// parseOrigin reads the prefix of one of our log statements; nil for any other.
func parseOrigin(prefix string) *logOrigin {
	const actionDrop = "drop"
	text, ours := strings.CutPrefix(prefix, "gateway:")
	switch {
	case !ours:
		return nil
	case text == "drop-input":
		return newOrigin(uuid.Nil, actionDrop, "input")
	case text == "drop-forward":
		return newOrigin(uuid.Nil, actionDrop, "forward")
	case len(text) != 36: // Parse also accepts other forms of an id
		return nil
	}
	rule, err := uuid.Parse(text)
	if err != nil || rule == uuid.Nil {
		return nil
	}
	return newOrigin(rule, "", "")
}

// quoted encodes a text as JSON. The name of an interface may be any bytes.
func quoted(text string) string {
	b, err := wire.Encode(strings.ToValidUTF8(text, "?"))
	if err != nil {
		return `""`
	}
	return string(b)
}

// protoNames maps the protocols with a name in the log.
var protoNames = map[string]uint8{"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58}

// protoTexts has all protocols as the log writes them.
var protoTexts = func() (texts [256]string) {
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	for name, number := range protoNames {
		texts[number] = name
	}
	return texts
}()

// append writes the event as the JSON of a LogEvent.
func (e *logEvent) append(b []byte) []byte {
	b = append(b, `{"timestamp":"`...)
	b = time.Unix(0, e.at).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = append(b, `",`...)
	b = append(b, e.origin.json...)
	b = append(b, `"proto":"`...)
	b = append(b, protoTexts[e.proto]...)
	b = append(b, `","source":"`...)
	b = e.src.AppendTo(b)
	b = append(b, `","destination":"`...)
	b = e.dst.AppendTo(b)
	b = append(b, '"')
	if e.srcPort != 0 {
		b = strconv.AppendUint(append(b, `,"source_port":`...), uint64(e.srcPort), 10)
	}
	if e.dstPort != 0 {
		b = strconv.AppendUint(append(b, `,"destination_port":`...), uint64(e.dstPort), 10)
	}
	b = append(b, `,"interface":`...)
	if e.in != "" {
		b = append(b, e.in...)
	} else {
		b = append(b, `""`...)
	}
	if e.out != "" {
		b = append(append(b, `,"out_interface":`...), e.out...)
	}
	b = strconv.AppendInt(append(b, `,"size":`...), int64(e.size), 10)
	return append(b, '}')
}

// numberedEvent is an event with its number since the start.
type numberedEvent struct {
	number uint64
	logEvent
}

// logEncoder caches the JSON of events, so that each is encoded once for all readers. The ingest never takes its lock.
type logEncoder struct {
	mu    sync.Mutex
	slots []encodedEvent
}

type encodedEvent struct {
	number uint64
	json   []byte
}

// append writes the events, separated by commas.
func (c *logEncoder) append(b []byte, events []numberedEvent) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots == nil { // allocated for the first reader
		c.slots = make([]encodedEvent, logBacklog)
	}
	for i := range events {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, c.encode(&events[i])...)
	}
	return b
}

func (c *logEncoder) encode(e *numberedEvent) []byte {
	slot := &c.slots[e.number%logBacklog]
	if len(slot.json) == 0 || slot.number != e.number {
		slot.number, slot.json = e.number, e.append(slot.json[:0])
	}
	return slot.json
}

// LogFilter selects events. All given conditions must hold.
type LogFilter struct {
	Since  time.Time    `query:"since" doc:"Not before this time."`
	Until  time.Time    `query:"until" doc:"Not after this time."`
	RuleID uuid.UUID    `query:"rule_id" doc:"Only what this rule logged."`
	Src    value.Prefix `query:"src" doc:"Address or network of the source."`
	Dst    value.Prefix `query:"dst" doc:"Address or network of the destination."`
	Proto  string       `query:"proto" doc:"icmp, tcp, udp, icmpv6, or the number of a protocol."`
	Port   *int         `query:"port" doc:"Port of the source or the destination."`
	Link   string       `query:"interface" doc:"Incoming or outgoing interface."`
	Zone   value.Zone   `query:"zone" doc:"Zone of the incoming or outgoing interface, as it is when the question is asked."`
	Text   string       `query:"q" maxLength:"200" doc:"Words that all occur in an event: parts of addresses, ports, interfaces, protocol, action or the name of the rule."`
	Action string       `query:"action" doc:"accept, drop or reject."`
	Limit  *int         `query:"limit" doc:"How many events of the history, 1 to 1000; 1000 if left out."`
}

// Validate checks what the types of the fields do not.
func (f *LogFilter) Validate() error {
	var c check.List
	_, known := f.proto()
	c.That(known, "proto", "must be icmp, tcp, udp, icmpv6 or a number from 0 to 255")
	c.That(f.Port == nil || *f.Port >= 1 && *f.Port <= 65535, "port", "must be between 1 and 65535")
	c.That(f.Action == "" || f.Action == "accept" || f.Action == "drop" || f.Action == "reject", "action", "must be one of accept, drop, reject")
	c.That(f.Limit == nil || *f.Limit >= 1 && *f.Limit <= logHistory, "limit", "must be between 1 and %d", logHistory)
	return c.Err()
}

// anyProto is not the number of a protocol.
const anyProto = -1

func (f *LogFilter) proto() (number int, ok bool) {
	if f.Proto == "" {
		return anyProto, true
	}
	if n, named := protoNames[f.Proto]; named {
		return int(n), true
	}
	n, err := strconv.ParseUint(f.Proto, 10, 8)
	return int(n), err == nil
}

// logMatcher is a filter in a form that is fast to compare.
type logMatcher struct {
	since, until int64
	rule         uuid.UUID
	src, dst     netip.Prefix
	proto        int
	port         uint16   // 0 for any
	link         string   // as in events; empty for any
	zone         []string // its interfaces, as in events; nil for any
	words        []logWord
	action       string
	limit        int
}

// logWord is a word to search for, in lower case, with the rules that have it in their names.
type logWord struct {
	text  []byte
	rules map[uuid.UUID]bool
}

// matcher converts a valid filter.
func (f *LogFilter) matcher(table LogTable) logMatcher {
	m := logMatcher{rule: f.RuleID, src: f.Src.Netip(), dst: f.Dst.Netip(), action: f.Action, limit: logHistory}
	m.proto, _ = f.proto()
	if f.Port != nil {
		m.port = uint16(*f.Port)
	}
	if f.Link != "" {
		m.link = quoted(f.Link)
	}
	if !f.Zone.IsZero() {
		m.zone = []string{}
		for _, name := range table.Members(f.Zone) {
			m.zone = append(m.zone, quoted(name.String()))
		}
	}
	for _, word := range strings.Fields(strings.ToLower(f.Text)) {
		m.words = append(m.words, logWord{[]byte(word), table.Named(word)})
	}
	if !f.Since.IsZero() {
		m.since = nanoseconds(f.Since)
	}
	m.until = maxNanoseconds
	if !f.Until.IsZero() {
		m.until = nanoseconds(f.Until)
	}
	if f.Limit != nil {
		m.limit = *f.Limit
	}
	return m
}

const maxNanoseconds = 1<<63 - 1

// nanoseconds converts a time to the form in events. Times that do not fit are before or after every event.
func nanoseconds(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, 0)):
		return 0
	case t.After(time.Unix(0, maxNanoseconds)):
		return maxNanoseconds
	}
	return t.UnixNano()
}

func (m *logMatcher) matches(e *logEvent) bool {
	return e.at >= m.since && e.at <= m.until &&
		(m.proto == anyProto || int(e.proto) == m.proto) &&
		(m.port == 0 || e.srcPort == m.port || e.dstPort == m.port) &&
		(m.link == "" || e.in == m.link || e.out == m.link) &&
		(m.action == "" || e.origin.action == m.action) &&
		(m.rule == uuid.Nil || e.origin.rule == m.rule) &&
		(!m.src.IsValid() || m.src.Contains(e.src)) &&
		(!m.dst.IsValid() || m.dst.Contains(e.dst)) &&
		(m.zone == nil || slices.Contains(m.zone, e.in) || slices.Contains(m.zone, e.out)) &&
		(m.words == nil || m.contains(e))
}

func (m *logMatcher) contains(e *logEvent) bool {
	var space [256]byte
	b := e.src.AppendTo(space[:0])
	b = e.dst.AppendTo(append(b, ' '))
	if e.srcPort != 0 {
		b = strconv.AppendUint(append(b, ' '), uint64(e.srcPort), 10)
	}
	if e.dstPort != 0 {
		b = strconv.AppendUint(append(b, ' '), uint64(e.dstPort), 10)
	}
	for _, text := range []string{e.in, e.out, protoTexts[e.proto], e.origin.action} {
		b = append(append(b, ' '), text...)
	}
	b = bytes.ToLower(b)
	for _, w := range m.words {
		if !bytes.Contains(b, w.text) && !w.rules[e.origin.rule] {
			return false
		}
	}
	return true
}
