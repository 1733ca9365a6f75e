package fwdproxy

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"edge.internal/gateway/internal/fwdproxy/verdict"
	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/value"
)

// Render renders the configuration into squid's files: a main file that only includes, the drop-in, and the access list for the judge.
func Render(c Config) ([]host.File, error) {
	main := conf.New(conf.Squid)
	main.Line("include", conf.Word("/etc/squid/conf.d/*.conf"))
	mainFile, err := main.Bytes()
	if err != nil {
		return nil, err
	}
	layout, err := c.layout()
	if err != nil {
		return nil, err
	}
	dropIn, err := renderDropIn(c, layout)
	if err != nil {
		return nil, err
	}
	list, err := renderList(c, layout)
	if err != nil {
		return nil, err
	}
	return []host.File{
		{Place: squid.Main, Content: mainFile}, {Place: squid.DropIn, Content: dropIn}, {Place: squid.AccessList, Content: list},
	}, nil
}

// layout identifies the entries that squid judges itself, in their order. The list's positions refer to them: a list and a configuration
// with different layouts let nothing through.
func (c Config) layout() (conf.Arg, error) {
	sum := sha256.New()
	for _, a := range c.destinations() {
		spans, err := spans(a.Value.String())
		if err != nil {
			return conf.Arg{}, err
		}
		sum.Write([]byte(a.Action))
		for _, s := range spans {
			sum.Write([]byte(" " + s.String()))
		}
		sum.Write([]byte("\n"))
	}
	return conf.Hex(sum.Sum(nil)[:8]), nil
}

// destinations returns the entries that squid judges itself.
func (c Config) destinations() (list []ACL) {
	for _, a := range c.ACLs {
		if a.Type == "dst" {
			list = append(list, a)
		}
	}
	return list
}

// denied returns how many of those deny before the first one that allows.
func (c Config) denied() int {
	list := c.destinations()
	if i := slices.IndexFunc(list, func(a ACL) bool { return a.Action == "allow" }); i >= 0 {
		return i
	}
	return len(list)
}

// unreachable lists the addresses that every machine has for itself.
var unreachable = []value.Prefix{
	value.Must[value.Prefix]("0.0.0.0/8"), value.Must[value.Prefix]("127.0.0.0/8"), value.Must[value.Prefix]("169.254.0.0/16"),
	value.Must[value.Prefix]("::/127"), value.Must[value.Prefix]("fe80::/10"),
}

// renderDropIn writes squid's own configuration. Its name, a digest of the rest, is in the judge's arguments, so that the judge can
// report which configuration squid runs with.
func renderDropIn(c Config, layout conf.Arg) ([]byte, error) {
	draft, err := writeDropIn(c, layout, conf.Word("-"))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(draft)
	return writeDropIn(c, layout, conf.Hex(sum[:16]))
}

func writeDropIn(c Config, layout, mark conf.Arg) ([]byte, error) {
	w := conf.New(conf.Squid)
	s := c.Settings
	if len(s.ListenAddresses) == 0 {
		w.Line("http_port", conf.Int(s.Port))
	}
	for _, a := range s.ListenAddresses {
		w.Line("http_port", socket(a, s.Port))
	}
	w.Line("http_port", socket(loopback, managerPort))
	w.Line("visible_hostname", conf.Word("gateway"))
	w.Line("httpd_suppress_version_string", conf.Word("on"))
	w.Line("forwarded_for", conf.Word("delete"))
	w.Line("email_err_data", conf.Word("off"))
	w.Line("pid_filename", conf.Word("/run/gateway-squid/squid.pid"))
	w.Line("logfile_rotate", conf.Int(0))
	w.Line("coredump_dir", conf.Word("/var/spool/squid"))
	w.Line("pinger_enable", conf.Word("off"))
	w.Line("shutdown_lifetime", conf.Int(1), conf.Word("second"))
	w.Line("cache_mem", conf.Int(s.CacheMB), conf.Word("MB"))
	if s.CacheMB == 0 {
		w.Line("cache", conf.Word("deny"), conf.Word("all"))
	}

	w.Comment("The gateway checks squid; these are not requests of clients.")
	w.Line("acl", conf.Word("gateway_manager"), conf.Word("localport"), conf.Int(managerPort))
	w.Line("access_log", conf.Word("none"), conf.Word("gateway_manager"))
	w.Line("access_log", conf.Word("stdio:/var/log/squid/access.log"))
	w.Line("stats_collection", conf.Word("deny"), conf.Word("gateway_manager"))
	w.Line("http_access", conf.Word("allow"), conf.Word("gateway_manager"), conf.Word("manager"), conf.Word("localhost"))
	w.Line("http_access", conf.Word("deny"), conf.Word("gateway_manager"))
	w.Line("http_access", conf.Word("deny"), conf.Word("manager"))

	w.Comment("Who may ask at all.")
	if len(s.AllowedNetworks) == 0 {
		w.Line("http_access", conf.Word("deny"), conf.Word("all"))
	} else {
		clients, err := apart(texts(s.AllowedNetworks))
		if err != nil {
			return nil, err
		}
		for _, n := range clients {
			w.Line("acl", conf.Word("gateway_clients"), conf.Word("src"), addresses(n))
		}
		w.Line("http_access", conf.Word("deny"), conf.Word("!gateway_clients"))
	}

	w.Comment("The judge decides by all entries but those about the server's address. Without its word nothing is allowed.")
	w.Line("external_acl_type", conf.Word("gateway_judge"), conf.Word("ttl=0"), conf.Word("negative_ttl=0"), conf.Word("cache=0"), conf.Word("children-max=1"),
		conf.Word("children-startup=1"), conf.Word("children-idle=1"), conf.Word("concurrency=1000"),
		conf.Word("%>a"), conf.Word("%>rm"), conf.Word("%DST"), conf.Word("%PORT"), conf.Word("%>ru"),
		conf.Word(judgeProgram), mark, conf.Word("/etc/squid/gateway.acls"), conf.Word(judgeSocket))
	w.Line("acl", conf.Word("gateway_judged"), conf.Word("external"), conf.Word("gateway_judge"))
	w.Line("http_access", conf.Word("deny"), conf.Word("!gateway_judged"))
	// What is denied whatever the server's address is need not be resolved.
	early := c.denied()
	for position := range early + 1 {
		decided(w, false, layout, position)
	}

	w.Comment("The gateway's own services cannot be reached through the proxy, except the sites that it publishes.")
	for _, n := range unreachable {
		w.Line("acl", conf.Word("gateway_itself"), conf.Word("dst"), conf.Value(n))
	}
	w.Line("http_access", conf.Word("deny"), conf.Word("gateway_itself"))
	if len(c.Own) > 0 {
		w.Line("acl", conf.Word("gateway_sites"), conf.Word("port"), conf.Int(80), conf.Int(443))
		for _, a := range c.Own {
			w.Line("acl", conf.Word("gateway_own"), conf.Word("dst"), conf.Value(a))
		}
		w.Line("http_access", conf.Word("deny"), conf.Word("gateway_own"), conf.Word("!gateway_sites"))
	}
	decided(w, true, layout, 0)

	for i, a := range c.destinations() {
		spans, err := spans(a.Value.String())
		if err != nil {
			return nil, err
		}
		name := conf.Joined(conf.Word("gateway_dst_"), conf.Int(i))
		for _, s := range spans {
			w.Line("acl", name, conf.Word("dst"), addresses(s))
		}
		if a.Action == "allow" {
			w.Line("http_access", conf.Word("allow"), name)
		} else {
			w.Line("http_access", conf.Word("deny"), name)
		}
		if i+1 > early {
			decided(w, false, layout, i+1)
		}
		decided(w, true, layout, i+1)
	}

	w.Comment("What no entry decides is allowed.")
	w.Line("acl", conf.Word("gateway_passed"), conf.Word("note"), conf.Word(verdict.Note), conf.Joined(layout, conf.Word("-pass")))
	w.Line("http_access", conf.Word("allow"), conf.Word("gateway_passed"))
	w.Line("http_access", conf.Word("deny"), conf.Word("all"))
	return w.Bytes()
}

// decided writes what happens to a request that the judge has decided at a position.
func decided(w *conf.Writer, allow bool, layout conf.Arg, position int) {
	action := conf.Word("deny")
	if allow {
		action = conf.Word("allow")
	}
	name := conf.Joined(conf.Word("gateway_"), action, conf.Word("_"), conf.Int(position))
	w.Line("acl", name, conf.Word("note"), conf.Word(verdict.Note), conf.Joined(layout, conf.Word("-"), action, conf.Word("-"), conf.Int(position)))
	w.Line("http_access", action, name)
}

var loopback = value.Must[value.Addr]("127.0.0.1")

func socket(a value.Addr, port int) conf.Arg {
	if a.Netip().Is4() {
		return conf.Joined(conf.Value(a), conf.Word(":"), conf.Int(port))
	}
	return conf.Joined(conf.Word("["), conf.Value(a), conf.Word("]:"), conf.Int(port))
}

// renderList writes the judge's entries, each with the number of squid's own entries before it.
func renderList(c Config, layout conf.Arg) ([]byte, error) {
	w := conf.New(conf.AccessList)
	w.Line("layout", layout, conf.Int(len(c.ACLs)-len(c.destinations())))
	position := 0
	for _, a := range c.ACLs {
		switch {
		case a.Type == "dst":
			position++
		case a.Action == "allow":
			w.Line("allow", conf.Int(position), kinds[a.Type], conf.Value(a.Value))
		default:
			w.Line("deny", conf.Int(position), kinds[a.Type], conf.Value(a.Value))
		}
	}
	return w.Bytes()
}

// kinds lists the types that the judge knows.
var kinds = map[string]conf.Arg{
	"src": conf.Word("src"), "dstdomain": conf.Word("dstdomain"), "dstdom_regex": conf.Word("dstdom_regex"), "url_regex": conf.Word("url_regex"),
	"port": conf.Word("port"), "method": conf.Word("method"), "time": conf.Word("time"),
}

// addresses formats a range for squid, which has special words for all addresses of a family.
func addresses(r value.Range) conf.Arg {
	switch r.String() {
	case "0.0.0.0/0":
		return conf.Word("ipv4")
	case "::/0":
		return conf.Word("ipv6")
	}
	return conf.Value(r)
}

func spans(text string) ([]value.Range, error) { return apart(strings.Fields(text)) }

// apart removes overlaps, about which squid complains: contained ranges are dropped, and overlapping ones merged.
func apart(words []string) ([]value.Range, error) {
	list := make([]value.Range, len(words))
	for i, word := range words {
		var err error
		if list[i], err = value.Parse[value.Range](word); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b value.Range) int {
		first1, last1 := a.Bounds()
		first2, last2 := b.Bounds()
		return cmp.Or(first1.Compare(first2), last2.Compare(last1))
	})
	var kept []value.Range
	for _, r := range list {
		if len(kept) == 0 {
			kept = append(kept, r)
			continue
		}
		first, last := kept[len(kept)-1].Bounds()
		from, to := r.Bounds()
		switch {
		case from.BitLen() != first.BitLen() || last.Less(from):
			kept = append(kept, r)
		case last.Less(to):
			joined, err := value.Parse[value.Range](first.String() + "-" + to.String())
			if err != nil {
				return nil, err
			}
			kept[len(kept)-1] = joined
		}
	}
	return kept, nil
}

func texts(list []value.Prefix) []string {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = p.String()
	}
	return words
}
