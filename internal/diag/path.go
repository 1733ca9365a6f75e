package diag

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// Question asks whether a connection is possible, and if not, why.
type Question struct {
	SourceZone  value.Zone `json:"source_zone" doc:"Zone of the source. Without a source address, one of its networks is used."`
	Source      value.Addr `json:"source" doc:"Address of the source. Without it and without a zone, the source is the gateway itself."`
	Destination value.Host `json:"destination" required:"true" doc:"Host name or IP address of the destination."`
	Protocol    *string    `json:"protocol" enum:"tcp,udp,icmp" doc:"The protocol; tcp by default."`
	Port        *int       `json:"port" minimum:"1" maximum:"65535" doc:"Port of the destination; tcp and udp need one."`
	TLS         *bool      `json:"tls" doc:"Whether to check the certificate; by default this depends on the port."`
	Run         *uuid.UUID `json:"run" doc:"An id that you choose, to follow the steps at /diagnostics/live."`
}

func (q *Question) Validate() error {
	var c check.List
	switch p := q.protocol(); p {
	case "tcp", "udp":
		c.That(q.Port != nil, "port", "is required for %s", p)
	case "icmp":
		c.That(q.Port == nil, "port", "must be empty, because icmp has no ports")
	}
	c.That(q.TLS == nil || !*q.TLS || q.protocol() == "tcp", "tls", "applies to tcp only")
	if to, err := netip.ParseAddr(q.Destination.String()); err == nil {
		family(&c, "destination", q.Source.Netip(), to)
		c.That(!to.IsMulticast() && !to.IsUnspecified(), "destination", "must be the address of a host")
	}
	return c.Err()
}

func (q *Question) protocol() string { return or(q.Protocol, "tcp") }

// tlsPorts lists the ports of services that begin with a TLS handshake.
var tlsPorts = []int{443, 465, 636, 853, 989, 990, 992, 993, 995, 3443, 5061, 5671, 6443, 6514, 8443, 8883, 9443}

func (q *Question) tls() bool {
	return q.protocol() == "tcp" && or(q.TLS, slices.Contains(tlsPorts, *q.Port))
}

// what describes the protocol with its port.
func (q *Question) what() string {
	if q.Port == nil {
		return q.protocol()
	}
	return fmt.Sprintf("%s port %d", q.protocol(), *q.Port)
}

// Path is the path from a source to a destination, as far as it goes.
type Path struct {
	Reaches    bool   `json:"reaches" doc:"Whether nothing was found that stops it."`
	StoppedAt  string `json:"stopped_at" enum:",name,source,route,filter,nat,connect,certificate" doc:"The step that it ends at; empty when it does not."`
	Summary    string `json:"summary" doc:"The answer in a sentence."`
	Advice     string `json:"advice" doc:"What to do; empty when there is nothing to do."`
	Steps      []Step `json:"steps" doc:"The steps that were taken, in order."`
	DurationMS int64  `json:"duration_ms" doc:"How long it took, in milliseconds, rounded up."`
}

// Step is one part of the path.
type Step struct {
	Kind     string     `json:"kind" enum:"name,source,route,filter,nat,connect,certificate" doc:"What was looked at."`
	Status   string     `json:"status" enum:"ok,warning,failed,skipped" doc:"What was found."`
	Text     string     `json:"text" doc:"What was found, in a sentence."`
	Advice   string     `json:"advice" doc:"What to do about it; empty when there is nothing to do."`
	RuleID   *uuid.UUID `json:"rule_id,omitzero" doc:"The rule or NAT rule that decided; absent if it was none of yours."`
	Subject  string     `json:"subject" doc:"What the step is about, in a word or two: an address, an interface, a rule."`
	Duration int64      `json:"duration_ms" doc:"How long it took, in milliseconds, rounded up."`
}

const (
	passed  = "ok"
	warning = "warning"
	failed  = "failed"
	skipped = "skipped"
)

// pathWithin limits the time of all steps together.
const pathWithin = 30 * time.Second

// path runs the steps.
func (r *Room) path(c *httpd.Call, q Question) (Path, error) {
	run, over, err := r.begin(c, q.Run)
	if err != nil {
		return Path{}, err
	}
	defer over()
	subject := q.Destination.String()
	if q.Port != nil {
		subject = net.JoinHostPort(subject, strconv.Itoa(*q.Port))
	}
	if err := r.Audit.Record(c, "diagnostics.path", subject, map[string]any{"source": q.Source.String(), "source_zone": q.SourceZone.String(), "protocol": q.protocol()}); err != nil {
		return Path{}, err
	}
	ctx, cancel := context.WithTimeout(run, pathWithin)
	defer cancel()
	began := time.Now()
	w := walk{Context: ctx, room: r, call: c, q: q, publish: run.publish, since: began, source: q.Source.Netip(), port: or(q.Port, 0)}
	for _, step := range []func() (bool, error){w.name, w.from, w.gateway, w.connect, w.certificate} {
		on, err := step()
		if err != nil {
			return Path{}, err
		}
		if run.Err() != nil {
			return Path{}, away("path", context.Cause(run))
		}
		if !on {
			break
		}
	}
	p := w.end()
	p.DurationMS = milliseconds(time.Since(began))
	return p, nil
}

// walk is a path in progress. Each step returns whether to continue.
type walk struct {
	context.Context
	room    *Room
	call    *httpd.Call
	q       Question
	publish func(Event)
	since   time.Time
	steps   []Step

	source      netip.Addr // invalid for the gateway itself
	in          value.IfName
	destination netip.Addr // after NAT, once that is known
	port        int
	local       bool // the destination is the gateway
}

// add adds a step, and reports whether the path continues after it.
func (w *walk) add(s Step) bool {
	s.Duration = milliseconds(time.Since(w.since))
	w.since = time.Now()
	w.steps = append(w.steps, s)
	w.publish(Event{Step: &s})
	return s.Status != failed
}

func (w *walk) end() Path {
	p := Path{Reaches: true, Steps: w.steps}
	warned := false
	for _, s := range w.steps {
		switch s.Status {
		case failed:
			p.Reaches, p.StoppedAt, p.Summary, p.Advice = false, s.Kind, s.Text, s.Advice
		case warning:
			if warned = true; p.Advice == "" {
				p.Advice = s.Advice
			}
		}
	}
	to := w.q.Destination.String()
	switch {
	case !p.Reaches:
	case warned:
		p.Summary = fmt.Sprintf("The gateway does not stop %s to %s, but check one step.", w.q.what(), to)
	default:
		p.Summary = fmt.Sprintf("Nothing stops %s to %s.", w.q.what(), to)
	}
	return p
}

// name resolves the destination.
func (w *walk) name() (bool, error) {
	name := w.q.Destination.String()
	if ip, err := netip.ParseAddr(name); err == nil {
		w.destination = ip
		return true, nil
	}
	ctx, cancel := context.WithTimeout(w, 5*time.Second)
	defer cancel()
	list, err := w.room.addresses(ctx, name)
	step := Step{Kind: "name", Status: passed, Subject: name}
	if err != nil || len(list) == 0 {
		step.Status = failed
		step.Text = fmt.Sprintf("The name %s has no address: %s.", name, unresolved(err))
		step.Advice = "Check the spelling, the records under Services, DNS, and the upstream servers of the gateway's resolver."
		return w.add(step), nil
	}
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.String()
	}
	fitting := slices.IndexFunc(list, func(a netip.Addr) bool { return !w.source.IsValid() || a.Is4() == w.source.Is4() })
	if fitting < 0 {
		step.Status = failed
		step.Text = fmt.Sprintf("The name %s has only %s, which is not the address family of %s.", name, strings.Join(texts, ", "), w.source)
		step.Advice = "Add a DNS record for the address family of the source, or choose a source of the other family."
		return w.add(step), nil
	}
	w.destination = list[fitting]
	step.Subject = w.destination.String()
	step.Text = fmt.Sprintf("%s is %s.", name, strings.Join(texts, ", "))
	if len(list) > 1 {
		step.Text += fmt.Sprintf(" %s is checked.", w.destination)
	}
	return w.add(step), nil
}

// from determines where the packet comes in. The gateway's own packets have no such step.
func (w *walk) from() (bool, error) {
	if !w.source.IsValid() && w.q.SourceZone.IsZero() {
		return true, nil
	}
	links, err := w.room.Host.Links(w)
	if err != nil {
		return false, fault.Wrap(fault.Unavailable, err, "The interfaces of the gateway cannot be listed.")
	}
	zones, err := w.room.deps.Zones(w)
	if err != nil {
		return false, err
	}
	step := Step{Kind: "source", Status: passed}
	if zone := w.q.SourceZone; !zone.IsZero() {
		interfaces := zones[zone]
		step.Subject = zone.String()
		if len(interfaces) == 0 {
			step.Status, step.Text = failed, fmt.Sprintf("No interface that is on belongs to zone %s, so nothing can come from there.", zone)
			step.Advice = "Put an interface into this zone under Network, Interfaces, or choose another zone."
			return w.add(step), nil
		}
		if !w.source.IsValid() {
			stand, by := standIn(links, interfaces, w.destination)
			if !stand.IsValid() {
				step.Status, step.Text = failed, fmt.Sprintf("No interface in zone %s has an address of the same family as %s.", zone, w.destination)
				step.Advice = "Give the interface an address under Network, Addresses, or enter a source address."
				return w.add(step), nil
			}
			w.source, w.in = stand, by
			step.Text = fmt.Sprintf("%s represents zone %s and comes in on %s.", stand, zone, by)
		} else {
			w.in = interfaces[0]
			if back, err := w.room.Host.RouteTo(w, w.source, netip.Addr{}, ""); err == nil {
				if i := slices.IndexFunc(interfaces, func(n value.IfName) bool { return n.String() == back.Interface }); i >= 0 {
					w.in = interfaces[i]
				}
			}
			step.Text = fmt.Sprintf("%s in zone %s comes in on %s.", w.source, zone, w.in)
		}
	} else {
		back, err := w.room.Host.RouteTo(w, w.source, netip.Addr{}, "")
		step.Subject = w.source.String()
		switch {
		case err != nil:
			return false, fault.Wrap(fault.Unavailable, err, "The kernel's routes cannot be read.")
		case back.Local:
			step.Text = fmt.Sprintf("%s is an address of the gateway itself.", w.source)
			return w.add(step), nil
		case back.Interface == "":
			step.Status, step.Text = failed, fmt.Sprintf("The gateway has no route back to %s: %s.", w.source, back.Unreachable)
			step.Advice = "Add a route to the network of the source under Network, Routes."
			return w.add(step), nil
		}
		if w.in, err = value.Parse[value.IfName](back.Interface); err != nil {
			return false, err
		}
		step.Text = fmt.Sprintf("%s comes in on %s.", w.source, w.in)
		if zone, found := zoneOf(zones, w.in); found {
			step.Text = fmt.Sprintf("%s comes in on %s, zone %s.", w.source, w.in, zone)
		}
	}
	step.Subject = w.in.String()
	if text := dead(links, w.in.String()); text != "" {
		step.Status, step.Text, step.Advice = failed, text, checkLink
	}
	return w.add(step), nil
}

func zoneOf(zones map[value.Zone][]value.IfName, name value.IfName) (value.Zone, bool) {
	for zone, interfaces := range zones {
		if slices.Contains(interfaces, name) {
			return zone, true
		}
	}
	return value.Zone{}, false
}

// standIn returns an address in a network of the interfaces that is not the gateway's own.
func standIn(links []host.Link, interfaces []value.IfName, like netip.Addr) (netip.Addr, value.IfName) {
	for _, name := range interfaces {
		i := slices.IndexFunc(links, func(l host.Link) bool { return l.Name == name.String() })
		if i < 0 {
			continue
		}
		for _, a := range links[i].Addrs {
			n := a.Prefix()
			if !n.IsValid() || a.Scope != "global" || n.Addr().Is4() != like.Is4() || n.IsSingleIP() {
				continue
			}
			for ip := n.Masked().Addr().Next(); n.Contains(ip); ip = ip.Next() {
				if !owned(links, ip) && ip != like {
					return ip, name
				}
			}
		}
	}
	return netip.Addr{}, value.IfName{}
}

func owned(links []host.Link, ip netip.Addr) bool {
	return slices.ContainsFunc(links, func(l host.Link) bool {
		return slices.ContainsFunc(l.Addrs, func(a host.LinkAddr) bool { return a.Prefix().Addr() == ip })
	})
}

// dead explains why a link carries no packets; empty if it does.
func dead(links []host.Link, name string) string {
	i := slices.IndexFunc(links, func(l host.Link) bool { return l.Name == name })
	switch {
	case i < 0:
		return fmt.Sprintf("The machine has no interface %s.", name)
	case !links[i].Up():
		return fmt.Sprintf("The interface %s is down.", name)
	case links[i].Kind != "wireguard" && links[i].Kind != "tuntap" && !links[i].Carrier():
		return fmt.Sprintf("The interface %s has no carrier: no cable or peer is connected.", name)
	}
	return ""
}

// gateway determines what the gateway does with the packet: routing, filtering and NAT.
func (w *walk) gateway() (bool, error) {
	if w.in.IsZero() {
		return w.ownWay()
	}
	p := Packet{InInterface: w.in, Source: w.source, Destination: w.destination, Protocol: w.q.protocol(), Port: w.port}
	if p.Protocol == "icmp" && w.destination.Is6() {
		p.Protocol = "icmpv6"
	}
	v, err := w.room.deps.Explain(w.call, p)
	if err != nil {
		return false, err
	}
	if on, err := w.routed(v); !on {
		return false, err
	}
	step := Step{Kind: "filter", Status: passed, Subject: v.Rule, RuleID: v.RuleID, Text: "The firewall accepts it: " + v.Text + "."}
	if !v.Accepted {
		step.Status, step.Text = failed, "The firewall stops it: "+v.Text+"."
		step.Advice = "Add a rule under Firewall, Rules that accepts this connection."
		if v.RuleID != nil {
			step.Advice = fmt.Sprintf("Change the rule %s, or add a rule above it that accepts this connection.", v.Rule)
		}
	}
	if !w.add(step) {
		return false, nil
	}
	return w.rewritten(v), nil
}

// ownWay determines the route of the gateway's own packets.
func (w *walk) ownWay() (bool, error) {
	source := w.source
	way, err := w.room.Host.RouteTo(w, w.destination, source, "")
	if err != nil {
		return false, fault.Wrap(fault.Unavailable, err, "The kernel's routes cannot be read.")
	}
	w.local = way.Local
	step := Step{Kind: "route", Status: passed}
	switch {
	case way.Local:
		step.Subject, step.Text = w.destination.String(), fmt.Sprintf("%s is an address of the gateway itself.", w.destination)
	case way.Interface == "":
		step.Status, step.Subject = failed, w.destination.String()
		step.Text, step.Advice = fmt.Sprintf("The gateway has no route to %s: %s.", w.destination, way.Unreachable), noRoute
	default:
		step.Subject, step.Text = way.Interface, fmt.Sprintf("%s is reached through %s.", w.destination, way.Interface)
		if err := w.alive(&step, way.Interface); err != nil {
			return false, err
		}
	}
	if !w.add(step) {
		return false, nil
	}
	return w.add(Step{Kind: "filter", Status: passed, Text: "Packets that the gateway itself sends are not filtered."}), nil
}

const checkLink = "Check the cable and the switch, and that the interface is on under Network, Interfaces."

const noRoute = "Add a route under Network, Routes, or check the interface to the default gateway."

// alive fails a step if its outgoing link carries no packets.
func (w *walk) alive(step *Step, link string) error {
	links, err := w.room.Host.Links(w)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "The interfaces of the gateway cannot be listed.")
	}
	if text := dead(links, link); text != "" {
		step.Status, step.Text, step.Advice = failed, text, checkLink
	}
	return nil
}

// routed adds the route of a packet, after NAT of its destination.
func (w *walk) routed(v Verdict) (bool, error) {
	for _, n := range v.NAT {
		if n.Destination {
			w.add(Step{Kind: "nat", Status: passed, Subject: n.Rule, RuleID: n.RuleID, Text: fmt.Sprintf("The NAT rule %s changes the destination from %s to %s.", n.Rule, n.From, n.To)})
		}
	}
	if v.Destination.IsValid() {
		w.destination = v.Destination
	}
	if v.Port != 0 {
		w.port = v.Port
	}
	step := Step{Kind: "route", Status: passed, Subject: v.OutInterface}
	switch v.Path {
	case "input":
		w.local = true
		step.Subject, step.Text = w.destination.String(), fmt.Sprintf("%s is an address of the gateway itself.", w.destination)
		return w.add(step), nil
	case "unroutable":
		step.Status, step.Subject = failed, w.destination.String()
		step.Text, step.Advice = fmt.Sprintf("The gateway has no route to %s: %s.", w.destination, v.Text), noRoute
		return w.add(step), nil
	}
	step.Text = fmt.Sprintf("%s is reached through %s.", w.destination, v.OutInterface)
	if v.OutZone != "" {
		step.Text = fmt.Sprintf("%s is reached through %s, zone %s.", w.destination, v.OutInterface, v.OutZone)
	}
	forwarding, err := w.room.Host.Forwarding(w)
	if err != nil {
		return false, fault.Wrap(fault.Unavailable, err, "The gateway cannot find out whether the kernel forwards packets.")
	}
	if on := forwarding.IPv4 && w.destination.Is4() || forwarding.IPv6 && w.destination.Is6(); !on {
		step.Status, step.Text = failed, "The gateway does not forward packets between its interfaces."
		step.Advice = "It forwards packets only while the firewall is loaded. Check Network and Firewall under System, Components."
		return w.add(step), nil
	}
	if err := w.alive(&step, v.OutInterface); err != nil {
		return false, err
	}
	return w.add(step), nil
}

// rewritten adds NAT of the source of an outgoing packet, and warns if it is missing.
func (w *walk) rewritten(v Verdict) bool {
	masked := false
	for _, n := range v.NAT {
		if !n.Destination {
			masked = true
			w.add(Step{Kind: "nat", Status: passed, Subject: n.Rule, RuleID: n.RuleID, Text: fmt.Sprintf("The NAT rule %s changes the source from %s to %s.", n.Rule, n.From, n.To)})
		}
	}
	inside := w.source.IsPrivate() || w.source.IsLinkLocalUnicast()
	outside := w.destination.IsGlobalUnicast() && !w.destination.IsPrivate()
	if v.Path == "forward" && !masked && inside && outside && w.source.Is4() {
		w.add(Step{
			Kind: "nat", Status: warning, Subject: v.OutInterface,
			Text:   fmt.Sprintf("%s is a private address, and no NAT rule changes it on the way out through %s. Replies come back only if the other side has a route to it.", w.source, v.OutInterface),
			Advice: fmt.Sprintf("Add a masquerade rule for zone %s under Firewall, NAT.", v.OutZone),
		})
	}
	return true
}

// connect tries the destination from the gateway.
func (w *walk) connect() (bool, error) {
	switch w.q.protocol() {
	case "udp":
		return w.udp()
	case "icmp":
		return w.ping()
	}
	at := net.JoinHostPort(w.destination.String(), strconv.Itoa(w.port))
	step := Step{Kind: "connect", Status: passed, Subject: at}
	asked := time.Now()
	err := dial(w, at)
	if err == nil {
		step.Text = fmt.Sprintf("%s accepts connections: the gateway itself connected in %.1f ms.", at, float64(time.Since(asked).Microseconds())/1000)
		return w.add(step), nil
	}
	step.Status = failed
	step.Text = fmt.Sprintf("The gateway itself cannot connect to %s: %s.", at, refused(err))
	switch {
	case w.local:
		step.Advice = fmt.Sprintf("Nothing on the gateway listens on tcp port %d of %s. Turn on the service, and check which addresses it listens on.", w.port, w.destination)
	default:
		step.Advice = "Check that the host is up, that the service listens on this address and port, and that no other firewall drops the connection."
	}
	return w.add(step), nil
}

// udp cannot try a service, but the gateway knows its own.
func (w *walk) udp() (bool, error) {
	if !w.local {
		return w.add(Step{Kind: "connect", Status: skipped, Text: "UDP has no handshake, so the gateway cannot tell whether the service answers."}), nil
	}
	users, err := w.room.Host.PortUsers(w.port)
	if err != nil {
		return false, fault.Wrap(fault.Unavailable, err, "The open ports of the gateway cannot be listed.")
	}
	i := slices.IndexFunc(users, func(u host.PortUser) bool {
		return u.Protocol == "UDP" && (u.Address == w.destination || u.Address.IsUnspecified())
	})
	if i < 0 {
		return w.add(Step{
			Kind: "connect", Status: failed, Text: fmt.Sprintf("Nothing on the gateway listens on udp port %d of %s.", w.port, w.destination),
			Advice: "Turn on the service, and check which addresses it listens on.",
		}), nil
	}
	return w.add(Step{Kind: "connect", Status: passed, Subject: users[i].Program, Text: fmt.Sprintf("%s listens on udp port %d.", users[i].Program, w.port)}), nil
}

func (w *walk) ping() (bool, error) {
	step := Step{Kind: "connect", Status: passed, Subject: w.destination.String()}
	end, err := w.room.Host.Probe(w, host.Probe{Tool: host.ProbePing, Target: w.destination.String()}, func([]byte) {})
	switch {
	case err != nil && w.Err() == nil:
		step.Status, step.Text = skipped, "The gateway cannot run ping."
	case err != nil, end.ExitStatus != 0:
		step.Status, step.Text = failed, fmt.Sprintf("%s does not answer echo requests from the gateway.", w.destination)
		step.Advice = "Check that the host is up and connected. Some hosts do not answer echo requests: try one of its TCP ports."
	default:
		step.Text = fmt.Sprintf("%s answers echo requests from the gateway.", w.destination)
	}
	return w.add(step), nil
}
