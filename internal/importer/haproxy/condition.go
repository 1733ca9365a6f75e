package haproxy

import (
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/value"
)

// term is a condition, as far as the gateway supports it: hosts and prefixes of paths, each nil for any.
type term struct {
	hosts, paths []string
	tls          *bool
	// bad says why the gateway does not support it.
	bad string
	// inexact says how the gateway's version differs.
	inexact string
}

// mostTerms is the maximum number of alternatives when a condition is expanded.
const mostTerms = 256

// and returns the conjunction.
func (t term) and(x term) term {
	out := term{tls: t.tls, bad: t.bad, inexact: t.inexact}
	if out.bad == "" {
		out.bad = x.bad
	}
	if out.inexact == "" {
		out.inexact = x.inexact
	}
	if x.tls != nil {
		if out.tls != nil && *out.tls != *x.tls {
			out.bad = "the condition is never true"
		}
		out.tls = x.tls
	}
	out.hosts = intersect(t.hosts, x.hosts)
	out.paths = intersect(t.paths, x.paths)
	if out.hosts != nil && len(out.hosts) == 0 || out.paths != nil && len(out.paths) == 0 {
		out.bad = "it combines conditions on the same part of the request"
	}
	return out
}

// intersect returns the common elements of two lists; nil stands for everything.
func intersect(a, b []string) []string {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	both := []string{}
	for _, x := range a {
		if slices.Contains(b, x) {
			both = append(both, x)
		}
	}
	return both
}

// not returns the opposite condition.
func (t term) not() term {
	if t.tls != nil && t.hosts == nil && t.paths == nil && t.bad == "" {
		opposite := !*t.tls
		return term{tls: &opposite}
	}
	if t.bad != "" || t.hosts == nil && challenge(t.paths) {
		return term{bad: t.bad} // the gateway excludes challenges from everything else anyway
	}
	return term{bad: "the gateway has no conditions with not"}
}

// challenge reports whether paths are those of ACME, which the gateway answers itself.
func challenge(paths []string) bool {
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool { return !strings.HasPrefix(p, "/.well-known/acme-challenge") })
}

// acls are the named conditions of a section. A name that is declared several times holds if any of them does.
type acls map[string][]term

// readACLs reads the acl lines of a section. An unsupported condition is reported where it is used, too.
func (c *conversion) readACLs(s *section) acls {
	list := acls{}
	for _, l := range s.find("acl") {
		if len(l.words) < 3 {
			c.note(l, "the condition is empty")
			continue
		}
		t := readTest(l.words[2:])
		list[l.words[1]] = append(list[l.words[1]], t)
		if t.bad != "" {
			c.note(l, t.bad)
		} else if t.inexact != "" {
			c.note(l, t.inexact)
		}
	}
	return list
}

// alternatives reads a condition: what follows if or unless. Without either it is always true.
func (a acls) alternatives(words []string) []term {
	if len(words) == 0 {
		return []term{{}}
	}
	list := []term{}
	now := []term{{}}
	for i := 1; i < len(words); i++ {
		word := words[i]
		if word == "or" || word == "||" {
			list, now = append(list, now...), []term{{}}
			continue
		}
		negated := false
		for strings.HasPrefix(word, "!") {
			negated = !negated
			if word = word[1:]; word == "" && i+1 < len(words) {
				i++
				word = words[i]
			}
		}
		var found []term
		switch {
		case word == "{":
			end := slices.Index(words[i:], "}")
			if end < 0 {
				return []term{{bad: "the condition has no end"}}
			}
			found = []term{readTest(words[i+1 : i+end])}
			i += end
		case word == "TRUE" || word == "HTTP":
			found = []term{{}}
		case a[word] == nil:
			found = []term{{bad: "the gateway has no condition " + word}}
		default:
			found = a[word]
		}
		if negated {
			found = []term{refuse(found)}
		}
		if now = multiply(now, found); now == nil || len(list) > mostTerms {
			return []term{{bad: "the condition has too many alternatives"}}
		}
	}
	list = append(list, now...)
	if words[0] == "unless" {
		return []term{refuse(list)}
	}
	return list
}

// refuse returns the opposite of alternatives: none of them holds.
func refuse(list []term) term {
	out := term{}
	for _, t := range list {
		out = out.and(t.not())
	}
	return out
}

func multiply(a, b []term) []term {
	if len(a)*len(b) > mostTerms {
		return nil
	}
	var list []term
	for _, x := range a {
		for _, y := range b {
			list = append(list, x.and(y))
		}
	}
	return list
}

// hostFetch matches a test of the host name, and pathFetch of the path.
var (
	hostFetch = regexp.MustCompile(`^(?:req\.|req_)?f?hdr(_beg|_end|_dom|_sub|_reg|_str)?\(host(?:,-?1)?\)((?:,(?:lower|host_only|field\(1,:\)|word\(1,:\)))*)$|^(?:ssl_fc_sni|req[._]ssl_sni)(_end|_reg|_beg|_dom|_sub)?(?:,lower)?$`)
	pathFetch = regexp.MustCompile(`^path(_beg|_end|_dir|_dom|_sub|_reg)?(?:,lower)?$`)
	// pathForm matches a valid path of a routing rule.
	pathForm = regexp.MustCompile(`^/([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2}){0,498}$`)
)

// readTest reads the test of an acl: what to look at, flags, and patterns.
func readTest(words []string) term {
	if len(words) == 0 {
		return term{bad: "the condition is empty"}
	}
	fetch, method, ignoring := strings.ToLower(words[0]), "str", false
	patterns := words[1:]
	for len(patterns) > 0 && strings.HasPrefix(patterns[0], "-") {
		flag := patterns[0]
		patterns = patterns[1:]
		switch flag {
		case "-i":
			ignoring = true
		case "-m":
			if len(patterns) == 0 {
				return term{bad: "the condition is incomplete"}
			}
			method, patterns = patterns[0], patterns[1:]
		case "-n", "-u":
		case "--":
			return read(fetch, method, ignoring, patterns)
		default: // -f and -M name files
			return term{bad: "its values are in another file"}
		}
	}
	return read(fetch, method, ignoring, patterns)
}

func read(fetch, method string, ignoring bool, patterns []string) term {
	if fetch == "ssl_fc" && len(patterns) == 0 {
		tls := true
		return term{tls: &tls}
	}
	if m := hostFetch.FindStringSubmatch(fetch); m != nil {
		if suffix := m[1] + m[3]; suffix != "" {
			method = suffix[1:]
		}
		return readHosts(method, patterns)
	}
	if m := pathFetch.FindStringSubmatch(fetch); m != nil {
		if m[1] != "" {
			method = m[1][1:]
		}
		return readPaths(method, ignoring, patterns)
	}
	return term{bad: "the gateway has no condition on " + fetch}
}

func readHosts(method string, patterns []string) term {
	t := term{hosts: []string{}}
	add := func(name string) bool {
		name, _, _ = strings.Cut(name, ":")
		site, err := value.Parse[value.SiteName](strings.ToLower(name))
		if err == nil && !slices.Contains(t.hosts, site.String()) {
			t.hosts = append(t.hosts, site.String())
		}
		return err == nil
	}
	for _, p := range patterns {
		ok := false
		switch method {
		case "str":
			ok = add(p)
		case "dom", "beg":
			// A complete name is nearly always meant as such.
			if ok = add(p); ok {
				t.inexact = "it is carried over as the name " + p + " alone"
			}
		case "end":
			parent, dotted := strings.CutPrefix(p, ".")
			ok = add("*." + parent)
			if ok && !dotted {
				add(parent)
			}
			t.inexact = "a wildcard of the gateway covers one label, so add deeper names yourself"
		default:
			return term{bad: "the gateway has no condition on a part of the host name (" + method + ")"}
		}
		if !ok {
			return term{bad: "it needs whole host names, which " + p + " is not"}
		}
	}
	if len(t.hosts) == 0 {
		return term{bad: "it names no host"}
	}
	return t
}

func readPaths(method string, ignoring bool, patterns []string) term {
	if method != "beg" {
		return term{bad: "routing rules of the gateway match the beginning of a path (path_beg) only"}
	}
	t := term{paths: []string{}}
	for _, p := range patterns {
		if !pathForm.MatchString(p) {
			return term{bad: "it needs paths that begin with /, which " + p + " does not, or whose characters a URL can have"}
		}
		t.paths = append(t.paths, p)
	}
	if len(t.paths) == 0 {
		return term{bad: "it names no path"}
	}
	if ignoring && slices.ContainsFunc(t.paths, func(p string) bool { return strings.ToLower(p) != strings.ToUpper(p) }) {
		t.inexact = "paths are case-sensitive at the gateway"
	}
	return t
}
