package tunnel

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/kit/value"
)

// foreign is a configuration file of WireGuard's own tools, as far as the gateway imports it.
type foreign struct {
	mode       string
	privateKey Key
	addresses  Addresses
	listenPort int
	dns        Resolvers
	mtu        *int
	peers      []foreignPeer
	notes      []string
}

type foreignPeer struct {
	name         string
	publicKey    Key
	presharedKey Key
	allowedIPs   Networks
	endpoint     Endpoint
	keepalive    int
}

// section is a section of such a file. Keys are in lower case, because WireGuard ignores their case.
type section struct {
	name     string
	comment  string // the comment before it or at its top, often the name of a peer
	line     int
	values   map[string][]string
	repeated string // a repeated key that may occur only once
}

// lists are the keys that may be repeated.
var lists = []string{"address", "dns", "allowedips", "preup", "postup", "predown", "postdown"}

// hooks are shell commands. They are never run, and never stored.
var hooks = []struct{ key, name string }{{"preup", "PreUp"}, {"postup", "PostUp"}, {"predown", "PreDown"}, {"postdown", "PostDown"}}

// readForeign parses such a file. Its errors contain no values, which might be keys.
func readForeign(content []byte) (*foreign, error) {
	sections, err := readSections(string(content))
	if err != nil {
		return nil, err
	}
	f := &foreign{notes: []string{}}
	seen := false
	for _, s := range sections {
		switch {
		case s.repeated != "":
			return nil, fmt.Errorf("the section of line %d has %s twice", s.line, s.repeated)
		case s.name == "interface" && seen:
			return nil, errors.New("it has two [Interface] sections")
		case s.name == "interface":
			seen = true
			err = f.readInterface(s)
		case s.name == "peer":
			err = f.readPeer(s)
		default:
			return nil, fmt.Errorf("line %d starts an unknown section", s.line)
		}
		if err != nil {
			return nil, fmt.Errorf("the section of line %d: %w", s.line, err)
		}
	}
	if !seen {
		return nil, errors.New("it has no [Interface] section")
	}
	f.settle()
	return f, nil
}

func readSections(text string) (list []*section, err error) {
	comment := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, remark, remarked := strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if remarked && line == "" {
			comment = strings.TrimSpace(strings.TrimLeft(remark, "#"))
			if len(list) > 0 && len(list[len(list)-1].values) == 0 && list[len(list)-1].comment == "" {
				list[len(list)-1].comment, comment = comment, ""
			}
			continue
		}
		if line == "" {
			continue
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			list = append(list, &section{name: strings.ToLower(line[1 : len(line)-1]), comment: comment, line: n, values: map[string][]string{}})
			comment = ""
			continue
		}
		key, v, ok := strings.Cut(line, "=")
		if !ok || len(list) == 0 {
			return nil, fmt.Errorf("line %d is neither a section nor a key with a value", n)
		}
		s := list[len(list)-1]
		name := strings.TrimSpace(key)
		k := strings.ToLower(name)
		if len(s.values[k]) > 0 && !slices.Contains(lists, k) {
			s.repeated = name
		}
		s.values[k] = append(s.values[k], strings.TrimSpace(v))
		comment = ""
	}
	return list, nil
}

// take removes a key from a section and returns its values as one list.
func (s *section) take(key string) string {
	v := strings.Join(s.values[key], ",")
	delete(s.values, key)
	return v
}

// parsed parses an optional value. The error names only the key.
func parsed[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](s *section, key string) (T, error) {
	var none T
	text := s.take(key)
	if text == "" {
		return none, nil
	}
	v, err := value.Parse[T, P](text)
	if err != nil {
		return none, fmt.Errorf("%s %w", key, err)
	}
	return v, nil
}

// number parses an optional number; off is 0.
func (s *section) number(key string, least, most int) (int, error) {
	text := s.take(key)
	if text == "" || strings.EqualFold(text, "off") {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s must be between %d and %d", key, least, most)
	}
	return n, nil
}

func (f *foreign) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

func (f *foreign) readInterface(s *section) (err error) {
	if f.privateKey, err = parsed[Key](s, "privatekey"); err != nil {
		return errors.New("PrivateKey is not a key")
	}
	if f.privateKey.IsZero() {
		return errors.New("it has no PrivateKey")
	}
	if f.addresses, err = readAddresses(s.take("address")); err != nil {
		return err
	}
	if f.listenPort, err = s.number("listenport", 0, 65535); err != nil {
		return err
	}
	mtu, err := s.number("mtu", 1280, 9000)
	if err != nil {
		return err
	}
	if mtu > 0 {
		f.mtu = &mtu
	}
	f.readDNS(s.take("dns"))
	for _, h := range hooks {
		if n := len(s.values[h.key]); n > 0 {
			f.note("%s is not imported, because it is a shell command. Add firewall rules, NAT and routes in the gateway instead.", h.name)
			delete(s.values, h.key)
		}
	}
	for key, text := range map[string]string{
		"table": "Table is not imported, because the gateway adds the routes of the tunnel.", "fwmark": "FwMark is not imported, because the gateway uses its own.",
		"saveconfig": "SaveConfig is not imported, because the gateway stores the configuration.",
	} {
		if s.take(key) != "" {
			f.note("%s", text)
		}
	}
	slices.Sort(f.notes)
	return s.rest()
}

// rest refuses unknown keys.
func (s *section) rest() error {
	if len(s.values) > 0 {
		return errors.New("it has an unknown key")
	}
	return nil
}

// readAddresses treats an address without a length as a single address, like wg-quick.
func readAddresses(text string) (Addresses, error) {
	if text == "" {
		return Addresses{}, errors.New("it has no Address")
	}
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if a, err := netip.ParseAddr(item); err == nil {
			item = netip.PrefixFrom(a, a.BitLen()).String()
		}
		list = append(list, item)
	}
	a, err := value.Parse[Addresses](strings.Join(list, ","))
	if err != nil {
		return a, fmt.Errorf("address %w", err)
	}
	return a, nil
}

// readDNS keeps the addresses; wg-quick also allows search domains there.
func (f *foreign) readDNS(text string) {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if _, err := value.Parse[value.Addr](item); err == nil {
			list = append(list, item)
		} else if item != "" {
			f.note("A DNS search domain is not imported. Peers get only addresses of DNS servers.")
		}
	}
	if len(list) > 0 {
		f.dns, _ = value.Parse[Resolvers](strings.Join(list, ","))
	}
}

func (f *foreign) readPeer(s *section) (err error) {
	p := foreignPeer{name: peerName(s.comment)}
	if p.publicKey, err = parsed[Key](s, "publickey"); err != nil || p.publicKey.IsZero() {
		return errors.New("PublicKey is missing or not a key")
	}
	if p.presharedKey, err = parsed[Key](s, "presharedkey"); err != nil {
		return errors.New("PresharedKey is not a key")
	}
	if p.allowedIPs, err = parsed[Networks](s, "allowedips"); err != nil {
		return err
	}
	if p.endpoint, err = parsed[Endpoint](s, "endpoint"); err != nil {
		return err
	}
	if p.keepalive, err = s.number("persistentkeepalive", 0, 65535); err != nil {
		return err
	}
	f.peers = append(f.peers, p)
	return s.rest()
}

// keyLike matches what might be a key, because people write private keys into comments.
var keyLike = regexp.MustCompile(`[A-Za-z0-9+/]{42,}=?`)

// peerName extracts the name of a peer from a comment.
func peerName(comment string) string {
	for _, prefix := range []string{"Name", "Client", "Peer", "friendly_name"} {
		if rest, ok := strings.CutPrefix(comment, prefix); ok {
			if rest = strings.TrimLeft(rest, " :="); rest != "" {
				comment = rest
			}
		}
	}
	if _, err := value.Parse[value.Line](comment); err != nil || keyLike.MatchString(comment) || len(comment) > maxName {
		return ""
	}
	return comment
}

// settle decides what the file becomes: with a single peer to dial and no port of its own it is a client.
func (f *foreign) settle() {
	f.mode = server
	if len(f.peers) == 1 && f.listenPort == 0 && !f.peers[0].endpoint.IsZero() {
		f.mode = client
	}
	if f.mode == client && !f.dns.IsZero() {
		f.note("DNS is not imported. The gateway resolves names with its own DNS settings.")
		f.dns = Resolvers{}
	}
	if f.mode == server && f.listenPort == 0 {
		f.note("It has no ListenPort, so a free port is chosen.")
	}
	for i := range f.peers {
		if f.peers[i].name == "" {
			f.peers[i].name = fmt.Sprintf("peer %d", i+1)
		}
	}
}
