package haproxy

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/value"
)

// backend is a backend that was carried over.
type backend struct {
	name    string
	section *section
	// strips has the lines that strip a prefix from paths.
	strips map[string]*line
	// guarded means that HAProxy restricts access in a way that the gateway does not support.
	guarded bool
}

// server is the content of a server line.
type server struct {
	name, address string
	port          int
	weight        int // drained stands for weight 0
	weighted      bool
	backup, off   bool
	check         bool
	ssl, verify   bool
	http1         bool
	inter         int
}

// readBackend carries over a backend with its servers.
func (c *conversion) readBackend(s *section) {
	lines := s.find("server")
	if s.kind == "listen" && len(lines) == 0 {
		return
	}
	b := &backend{name: c.doc.Name("proxy.backend", s.name), section: s, strips: map[string]*line{}, guarded: c.guarded(s)}
	c.backends[s.name] = b
	servers := c.readServers(s, lines)

	scheme, verify, http1, checked, weighted, inter := "http", false, false, false, false, 0
	for _, x := range servers {
		if x.ssl {
			scheme = "https"
		}
		verify, http1, checked, weighted = verify || x.verify, http1 || x.http1, checked || x.check, weighted || x.weighted
		if inter == 0 {
			inter = x.inter
		}
	}
	for _, x := range servers {
		if scheme == "https" && !x.ssl {
			c.note(lines[0], "some servers of the backend use TLS and others do not. The gateway uses TLS for all of them")
			break
		}
	}
	row := importer.Fields("name", b.name, "scheme", importer.Unless(scheme, "http"), "lb_algorithm", importer.Unless(c.balance(s), "roundrobin"),
		"websocket", importer.Unless(s.setting("timeout", "tunnel") != nil, false), "force_http1", importer.Unless(http1, false))
	row = append(row, c.health(s, checked, inter)...)
	row = append(row, importer.Fields("verify_tls", importer.Unless(verify, false))...)
	c.doc.Add("proxy.backend", row)
	for _, x := range servers {
		var weight any
		if weighted {
			weight = x.weight
		}
		c.doc.Add("proxy.server", importer.Fields("backend_id", b.name, "name", x.name, "address", x.address, "port", x.port, "weight", weight,
			"backup", importer.Unless(x.backup, false), "active", importer.Unless(!x.off, true)))
	}
	c.readStrips(b)
}

func (c *conversion) balance(s *section) string {
	l := s.setting("balance")
	if l == nil {
		return "roundrobin"
	}
	switch how := l.word(1); how {
	case "roundrobin", "leastconn", "source":
		return how
	case "static-rr":
		return "roundrobin"
	}
	c.note(l, "the gateway has round robin, least connections and source. Round robin is used")
	return "roundrobin"
}

// health returns the fields of a health check.
func (c *conversion) health(s *section, checked bool, inter int) importer.Row {
	l := s.setting("option", "httpchk")
	if !checked {
		if l != nil {
			c.note(l, "no server of the backend has the word check, so none is checked")
		}
		return importer.Fields("health_check_enabled", false)
	}
	path, method, host, expect := "/", "GET", "", "100-599" // HAProxy only connects, so whatever a server answers is healthy
	if l != nil {
		method, expect = "OPTIONS", "200-399"
		switch {
		case len(l.words) == 3:
			path = l.word(2)
		case len(l.words) > 3:
			method, path = l.word(2), l.word(3)
		}
		for _, send := range s.find("http-check", "send") {
			for i := 2; i+1 < len(send.words); i++ {
				switch send.words[i] {
				case "meth":
					method = send.words[i+1]
				case "uri":
					path = send.words[i+1]
				case "hdr":
					if strings.EqualFold(send.words[i+1], "host") {
						host = send.word(i + 2)
					} else {
						c.note(send, "the health check of the gateway sends the header Host only")
					}
				}
			}
		}
		if _, sent, ok := strings.Cut(strings.Join(l.words, " "), "Host:"); ok { // the old syntax
			host, _, _ = strings.Cut(strings.TrimSpace(sent), "\r")
		}
		if x := s.setting("http-check", "expect"); x != nil {
			expect = c.expected(x)
		}
	}
	if method != "GET" && method != "HEAD" && method != "OPTIONS" {
		c.note(l, "the health check of the gateway uses GET, HEAD or OPTIONS. GET is used")
		method = "GET"
	}
	path, _, _ = strings.Cut(path, "?")
	if !pathForm.MatchString(path) {
		c.note(l, "the health check of the gateway asks for a path that begins with /. It asks for / now")
		path = "/"
	}
	if host != "" {
		if _, err := value.Parse[value.Host](host); err != nil {
			c.note(l, "the health check of the gateway sends the header Host with a host name only")
			host = ""
		}
	}
	return importer.Fields("health_check_path", importer.Unless(path, "/"), "health_check_method", importer.Unless(method, "GET"),
		"health_check_host", importer.Unless(host, ""), "health_check_expect", importer.Unless(expect, "200-399"),
		"health_check_interval_seconds", importer.Unless(min(max(inter, 0), 3600), 0))
}

var statusList = regexp.MustCompile(`^[1-5]\d\d(-[1-5]\d\d)?(,[1-5]\d\d(-[1-5]\d\d)?){0,19}$`)

// expected returns the healthy status codes of an http-check expect line.
func (c *conversion) expected(l *line) string {
	words := l.words[2:]
	for len(words) > 2 && (words[0] == "min-recv" || words[0] == "comment") {
		words = words[2:]
	}
	if len(words) == 2 && words[0] == "status" {
		if list := strings.ReplaceAll(words[1], " ", ""); statusList.MatchString(list) {
			return list
		}
	}
	if len(words) == 2 && words[0] == "rstatus" {
		if m := regexp.MustCompile(`^\^?([1-5])(?:\.\.|\[0-9\]\{2\}|\[0-9\]\[0-9\]|\d\d)?\$?$`).FindStringSubmatch(words[1]); m != nil {
			return m[1] + "00-" + m[1] + "99"
		}
	}
	c.note(l, "the health check of the gateway looks at status codes only. It expects 200-399 now")
	return "200-399"
}

// The options of a server that have a value. All others have none.
var valued = []string{
	"addr", "agent-addr", "agent-inter", "agent-port", "agent-send", "alpn", "ca-file", "check-alpn", "check-proto", "check-sni", "ciphers", "ciphersuites", "cookie", "crl-file", "crt",
	"downinter", "error-limit", "fall", "fastinter", "id", "init-addr", "inter", "log-proto", "max-reuse", "maxconn", "maxqueue", "minconn", "namespace", "npn", "observe",
	"on-error", "on-marked-down", "on-marked-up", "pool-low-conn", "pool-max-conn", "pool-purge-delay", "port", "proto", "redir", "resolve-net", "resolve-opts", "resolve-prefer",
	"resolvers", "rise", "shard", "sigalgs", "slowstart", "sni", "socks4", "source", "ssl-max-ver", "ssl-min-ver", "tcp-ut", "track", "verify", "verifyhost", "weight", "ws",
}

// readServers reads the servers of a section, with the options of default-server.
func (c *conversion) readServers(s *section, lines []*line) (list []server) {
	base := server{weight: 1}
	for _, l := range s.find("default-server") {
		c.options(l, l.words[1:], &base)
	}
	taken := map[string]int{}
	for _, l := range lines {
		if len(l.words) < 3 {
			c.note(l, "the server has no address")
			continue
		}
		x := base
		x.name = serverName(l.word(1), taken)
		address, port, why := target(l.word(2))
		if why != "" {
			c.note(l, why)
			continue
		}
		x.address, x.port = address, port
		c.options(l, l.words[3:], &x)
		list = append(list, x)
	}
	return list
}

var notServer = regexp.MustCompile(`[^A-Za-z0-9_:.-]`)

// serverName returns a valid name: the gateway's proxy turns dots into underscores, and refuses two names that become the same. taken has
// the names, with the last number given to each.
func serverName(wish string, taken map[string]int) string {
	wish = notServer.ReplaceAllString(wish, "_")
	if len(wish) > 90 {
		wish = wish[:90]
	}
	key := func(name string) string { return strings.ReplaceAll(name, ".", "_") }
	name := wish
	for taken[key(name)] > 0 {
		taken[key(wish)]++
		name = wish + "-" + strconv.Itoa(taken[key(wish)])
	}
	taken[key(name)] = 1
	return name
}

// target returns the address and port of a server, or why there is none.
func target(text string) (address string, port int, why string) {
	if strings.Contains(text, "${") {
		return "", 0, "the value of an environment variable is not in the file"
	}
	for _, family := range []string{"ipv4@", "ipv6@"} {
		text = strings.TrimPrefix(text, family)
	}
	if strings.HasPrefix(text, "/") || strings.Contains(text, "@") {
		return "", 0, "the gateway reaches servers over TCP only"
	}
	colon := strings.LastIndexByte(text, ':')
	if _, err := netip.ParseAddr(text); err == nil || colon < 0 {
		return "", 0, "the server has no port"
	}
	port, err := strconv.Atoi(text[colon+1:])
	if err != nil || port < 1 || port > 65535 || strings.HasPrefix(text[colon+1:], "+") {
		return "", 0, "the server has no port, or one that depends on that of the client"
	}
	host, err := value.Parse[value.Host](strings.Trim(text[:colon], "[]"))
	if err != nil {
		return "", 0, "the address of the server is neither a host name nor an IP address"
	}
	return host.String(), port, ""
}

// The system's certificate files, in the places of distributions.
var systemCA = []string{"@system-ca", "/etc/ssl/certs/ca-certificates.crt", "ca-certificates.crt", "/etc/ssl/certs", "/etc/pki/tls/certs/ca-bundle.crt"}

// options reads the options of a server, and reports those that the gateway lacks.
func (c *conversion) options(l *line, words []string, x *server) {
	var rest []string
	for i := 0; i < len(words); i++ {
		option, arg := words[i], ""
		if slices.Contains(valued, option) && i+1 < len(words) {
			i++
			arg = words[i]
		}
		switch option {
		case "check", "no-check":
			x.check = option == "check"
		case "backup", "no-backup":
			x.backup = option == "backup"
		case "disabled", "enabled":
			x.off = option == "disabled"
		case "ssl", "no-ssl":
			x.ssl = option == "ssl"
			x.verify = x.ssl
		case "verify":
			x.verify = arg != "none"
		case "ca-file":
			if !slices.Contains(systemCA, arg) {
				c.note(l, "the gateway trusts the certificates of the system. Add the authority of %s there, or turn verify_tls off", arg)
			}
		case "weight":
			n, err := strconv.Atoi(arg)
			if err != nil || n < 0 || n > 256 {
				rest = append(rest, option+" "+arg)
				break
			}
			x.weight, x.weighted = n, true
		case "inter":
			x.inter = seconds(arg)
		case "alpn", "proto":
			x.http1 = !strings.Contains(arg, "h2")
		case "sni", "check-sni", "check-ssl", "rise", "fall", "fastinter", "downinter", "resolvers", "resolve-prefer", "init-addr", "id", "on-marked-down":
			// The gateway sends a name itself, and has its own intervals.
		default:
			rest = append(rest, strings.TrimSpace(option+" "+arg))
		}
	}
	if len(rest) > 0 {
		c.note(l, "the gateway has no equivalent of %s for a server. The rest of the line is carried over", strings.Join(rest, ", "))
	}
}

// seconds parses a time of HAProxy, at least one second. Without a unit it is in milliseconds.
func seconds(text string) int {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > 1<<30 {
		return 0
	}
	switch text[len(digits):] {
	case "us":
		n /= 1_000_000
	case "s":
	case "m":
		n *= 60
	case "h":
		n *= 3600
	case "d":
		n *= 86400
	default:
		n /= 1000
	}
	return max(n, 1)
}

// Common ways to strip a prefix from a path.
var (
	replacePath = regexp.MustCompile(`^\^?(/[A-Za-z0-9._~/-]*?)(?:/\(\.\*\)|\(/\.\*\)\??|\(/\)\?\(\.\*\)|\[/\]\?\(\.\*\))\$?$`)
	regsubPath  = regexp.MustCompile(`^%\[path,regsub\(\^?(/[A-Za-z0-9._~/-]*?)/?,/?\)\]$`)
)

// readStrips determines which prefixes a backend strips from paths.
func (c *conversion) readStrips(b *backend) {
	for _, l := range b.section.lines {
		var m []string
		switch {
		case l.is("http-request", "replace-path") && len(l.words) == 4 && strings.Trim(l.word(3), `/\12`) == "":
			m = replacePath.FindStringSubmatch(l.word(2))
		case l.is("http-request", "set-path") && len(l.words) == 3:
			m = regsubPath.FindStringSubmatch(l.word(2))
		}
		if m != nil && m[1] != "" {
			b.strips[strings.TrimSuffix(m[1], "/")] = l
		}
	}
}
