package dns

import (
	"encoding/hex"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/value"
)

// Render renders the configuration into unbound's files: a main file that only includes, and the drop-in.
func Render(c *Config) ([]host.File, error) {
	main := conf.New(conf.Unbound)
	main.Line("include-toplevel", conf.Word(`"/etc/unbound/gateway.conf.d/*.conf"`))
	mainFile, err := main.Bytes()
	if err != nil {
		return nil, err
	}
	m, err := c.model()
	if err != nil {
		return nil, err
	}
	dropIn, err := renderDropIn(c, m).Bytes()
	if err != nil {
		return nil, err
	}
	return []host.File{{Place: unbound.Main, Content: mainFile}, {Place: unbound.DropIn, Content: dropIn}}, nil
}

// markName has the digest of everything that only a file can configure, so that unbound can be asked which file it has read.
var markName = value.Must[Name]("mark.gateway.invalid.")

// self is where unbound asks itself.
const self = "127.0.0.1"

func renderDropIn(c *Config, m *model) *conf.Writer {
	w := conf.New(conf.Unbound)
	w.Line("server")
	renderProcess(w)
	renderListen(w, &c.Settings)
	renderResolving(w, &c.Settings)
	names := m.sorted()
	loopback := len(m.links) > 0
	for _, f := range c.Settings.UpstreamForwards {
		loopback = loopback || f.loopback()
	}
	for _, n := range names {
		for _, f := range n.forward {
			loopback = loopback || f.loopback()
		}
		renderZone(w, n)
	}
	for _, name := range m.links {
		w.Line("domain-insecure", conf.Value(name))
	}
	if loopback {
		w.Line("do-not-query-localhost", conf.Word("no"))
	}
	renderControl(w)
	renderForward(w, conf.Word(`"."`), c.Settings.UpstreamForwards)
	for _, n := range names {
		renderForward(w, conf.Value(n.name), n.forward)
	}
	for _, name := range m.links {
		renderLink(w, name)
	}
	w.Aside(func() { renderNames(w, names) })
	w.Line("local-data", conf.ResourceRecord(markName, 0, conf.Word("TXT"), conf.CharacterStrings(hex.EncodeToString(w.Digest()))...))
	return w
}

func renderProcess(w *conf.Writer) {
	w.Line("username", conf.Word("unbound"))
	w.Line("directory", conf.Word(`"/etc/unbound"`))
	w.Line("chroot", conf.Word(`""`))
	// To standard error, which the journal records.
	w.Line("use-syslog", conf.Word("no"))
	w.Line("logfile", conf.Word(`""`))
	w.Line("num-threads", conf.Int(4))
	w.Line("so-reuseport", conf.Word("yes"))
	w.Line("msg-cache-size", conf.Word("32m"))
	w.Line("rrset-cache-size", conf.Word("64m"))
	w.Line("extended-statistics", conf.Word("yes"))
}

func renderListen(w *conf.Writer, s *Settings) {
	if s.everywhere() {
		w.Line("interface-automatic", conf.Word("yes"))
	} else {
		// An address that the machine does not have yet must not prevent the start.
		w.Line("ip-freebind", conf.Word("yes"))
		w.Line("interface", conf.Word(self))
		listed := map[string]bool{self: true}
		if len(s.ListenAddresses) == 0 {
			w.Line("interface", conf.Word("::1"))
		}
		for _, a := range s.ListenAddresses {
			if !listed[a.String()] {
				w.Line("interface", conf.Value(a))
			}
			listed[a.String()] = true
		}
	}
	for _, network := range s.AccessACL {
		w.Line("access-control", conf.Value(network), conf.Word("allow"))
	}
}

func renderResolving(w *conf.Writer, s *Settings) {
	if s.DNSSECValidation {
		w.Line("module-config", conf.Word(`"validator iterator"`))
		w.Line("trust-anchor-file", conf.Word(`"/usr/share/dns/root.key"`))
	} else {
		w.Line("module-config", conf.Word(`"iterator"`))
	}
	w.Line("qname-minimisation", yes(s.QNAMEMinimisation))
	w.Line("cache-min-ttl", conf.Int(s.CacheMinTTL))
	w.Line("cache-max-ttl", conf.Int(s.CacheMaxTTL))
	w.Line("prefetch", conf.Word("yes"))
	w.Line("prefetch-key", conf.Word("yes"))
	w.Line("hide-identity", conf.Word("yes"))
	w.Line("hide-version", conf.Word("yes"))
	w.Line("deny-any", conf.Word("yes"))
	w.Line("harden-short-bufsize", conf.Word("yes"))
	w.Line("harden-large-queries", conf.Word("yes"))
	w.Line("aggressive-nsec", conf.Word("yes"))
	w.Line("unwanted-reply-threshold", conf.Int(10_000_000))
}

func yes(on bool) conf.Arg {
	if on {
		return conf.Word("yes")
	}
	return conf.Word("no")
}

// renderZone writes what only a file can configure about a name: that it is a zone, which may replace a built-in one, or that names below
// it get the same answers.
func renderZone(w *conf.Writer, n *local) {
	switch {
	case n.redirect:
		w.Line("local-zone", conf.Value(n.name), conf.Word("redirect"))
		for _, r := range n.records {
			w.Line("local-data", r)
		}
	case n.zone:
		w.Line("local-zone", conf.Value(n.name), conf.Word("transparent"))
	}
	if len(n.forward) > 0 {
		// Its names need not exist in the public tree, whose signatures would deny them.
		w.Line("domain-insecure", conf.Value(n.name))
	}
}

// renderNames writes the names that can be changed at runtime.
func renderNames(w *conf.Writer, names []*local) {
	w.Line("server")
	for _, n := range names {
		if n.redirect {
			continue
		}
		if !n.zone {
			w.Line("local-zone", conf.Value(n.name), conf.Word("transparent"))
		}
		for _, r := range n.records {
			w.Line("local-data", r)
		}
	}
}

func renderControl(w *conf.Writer) {
	w.Line("remote-control")
	w.Line("control-enable", conf.Word("yes"))
	w.Line("control-interface", conf.Word("/run/unbound.ctl"))
	w.Line("control-use-cert", conf.Word("no"))
}

func renderForward(w *conf.Writer, name conf.Arg, to []Forward) {
	if len(to) == 0 {
		return
	}
	w.Line("forward-zone")
	w.Line("name", name)
	for _, f := range to {
		w.Line("forward-addr", conf.Value(f))
	}
}

// renderLink makes unbound ask itself for the target of an alias. The query does not request recursion, so unbound refuses names without
// records, such as names below; these are resolved as if the link did not exist.
func renderLink(w *conf.Writer, name Name) {
	w.Line("stub-zone")
	w.Line("name", conf.Value(name))
	w.Line("stub-addr", conf.Word(self))
	w.Line("stub-first", conf.Word("yes"))
	w.Line("stub-no-cache", conf.Word("yes"))
}
