package haproxy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon/grammar"
)

// forms are the directives that the gateway writes, except those about requests, and what may follow them. They decide which user
// HAProxy runs as and which files and sockets it opens; it reads its files as root.
var forms = grammar.Following(map[string]string{
	"global": ``, "defaults": ``, "frontend": `gateway_[a-z]+`, "backend": `gateway_[0-9a-z_-]+`, "resolvers": `gateway_dns`,

	"default-path": `config`,
	"group":        `haproxy`,
	"setcap":       `cap_net_bind_service`,
	"setenv":       `RES_OPTIONS timeout:1 attempts:1`,
	"stats":        `socket /run/haproxy/admin\.sock mode 660 group haproxy level admin expose-fd listeners`,
	"user":         `haproxy`,

	"balance":                               `leastconn|roundrobin|source`,
	"bind":                                  `(?:quic[46]@)?(?:::)?:[0-9]{1,5}(?: v6only)?(?: ssl crt-list (?:certificates|management)\.list alpn (?:h2,http/1\.1|h3))?`,
	"cluster-secret":                        `[0-9a-f]+`,
	"default_backend":                       `gateway_[a-z]+`,
	"description":                           `[0-9a-f]+`,
	"filter":                                `spoe engine waf config spoe\.cfg`,
	"h2-workaround-bogus-websocket-clients": ``,
	"hard-stop-after":                       amount,
	"hash-type":                             `consistent`,
	"hold":                                  `[a-z]+ ` + amount,
	"httpclient.ssl.verify":                 `none`,
	"http-check":                            `send meth [A-Z]+ uri /[^ ]* ver HTTP/1\.1 hdr Host [A-Za-z0-9_.:\[\]-]+ hdr Connection close|expect status [0-9,-]+`,
	"limited-quic":                          ``,
	"log":                                   `global|stdout(?: len [0-9]+)? format raw daemon (?:info|notice)|/run/gateway/waf\.sock len [0-9]+ format raw local0 alert`,
	"mode":                                  `http|tcp`,
	"option":                                `dontlog-normal|httpchk|httplog|idle-close-on-response|log-separate-errors|redispatch|spop-check`,
	"parse-resolv-conf":                     ``,
	"resolve_retries":                       `[0-9]+`,
	"retries":                               `[0-9]+`,
	"server":                                `[A-Za-z0-9_:-]{1,100} (?:unix@/run/gateway/(?:api|acme)\.sock|(?:[A-Za-z0-9_.-]+|\[[0-9a-f:.]+\]):[0-9]{1,5})(?: (?:` + serverOption + `))*`,
	"ssl-default-bind-ciphers":              `[A-Z0-9:-]+`,
	"ssl-default-bind-options":              `ssl-min-ver TLSv1\.2 no-tls-tickets`,
	"stick-table":                           `type binary len 8 size 100k expire ` + amount + ` store http_req_rate\(` + amount + `\)`,
	"tcp-request":                           `session set-var\(sess\.since\) date\(0,ms\)`,
	"timeout":                               `[a-z-]+ ` + amount,
	"tune.bufsize":                          `[0-9]+`,
	"tune.http.maxhdr":                      `[0-9]+`,
	"tune.maxrewrite":                       `[0-9]+`,
	"tune.pattern.cache-size":               `0`,
	"unique-id-format":                      `%\[uuid\(\)\]`,
	"use_backend":                           `%\[var\(txn\.backend\)\]`,
})

const (
	amount       = `[0-9]+(?:ms|[smhd])`
	serverOption = `weight [0-9]{1,3}|check|(?:inter|fastinter|downinter) ` + amount + `|(?:fall|rise) [0-9]+|ssl|verify (?:none|required ca-file @system-ca)|alpn (?:h2,)?http/1\.1|` +
		`sni (?:req\.fhdr\(host\),host_only|str\([A-Za-z0-9_.-]+\))|check-ssl|check-alpn http/1\.1|check-sni [A-Za-z0-9_.-]+|ws h1|backup|disabled|resolvers gateway_dns|init-addr last,libc,none|send-proxy-v2`
)

// ofGlobal are the directives that are valid only in the section global.
var ofGlobal = []string{"default-path", "group", "setcap", "setenv", "stats", "user"}

// rules are the directives about requests. Their words are checked one by one.
var rules = []string{"http-request", "http-response", "http-after-response", "log-format"}

// actions are the actions of rules. One that sets a variable names it in the same word.
var actions = regexp.MustCompile(`^(?:set-var\([a-z.]+\)|deny|redirect|return|track-sc[01]|wait-for-body|(?:add|del|set)-header|set-path|send-spoe-group|set-log-level)$`)

// headerName matches the name of a header, or the pattern of those that the gateway deletes.
var headerName = regexp.MustCompile(`^(?:[A-Za-z0-9][A-Za-z0-9!#$&'*+.^_|~-]*|\^\(x\[-_\]\(forwarded\[-_\]\.\*\|real\[-_\]ip\)\|forwarded\)\$)$`)

// Files that rules may read, relative to the folder of the configuration: pages after a keyword, maps in a converter.
var (
	pages = map[string]string{"file": "pages/maintenance.html", "lf-file": "pages/blocked.html"}
	maps  = regexp.MustCompile(`^(?:map_str\(maps/(?:headers|hosts|switches|wildcards)\.map\)|map_beg\(maps/routes\.map\))`)
)

// fileWords are keywords that a file name follows.
var fileWords = regexp.MustCompile(`^(?:lf-)?file$|^(?:default-)?errorfiles?$|^(?:ca|crl|ca-verify|crt-ignore-err|ca-sign)-file$|^crt(?:-list|-base)?$|^ca-base$`)

// functions are the fetches and converters that the gateway uses, besides map converters. Others could read files or the
// environment.
var functions = []string{
	"bytes", "concat", "date", "field", "ipmask", "mul", "req.fhdr", "req.hdr", "req.hdr_cnt", "req.hdr_val", "res.hdr", "rtrim", "sc_http_req_rate", "set-var", "srv_is_up", "str", "sub", "uuid", "var",
}

var function = regexp.MustCompile(`([A-Za-z0-9_.-]+)\(`)

func admit(text string) error {
	// located is set while file names are relative to the configuration. HAProxy forgets that once it has read a filter's file.
	section, located := "", false
	named := map[string]bool{}
	err := grammar.Lines(text, grammar.AnyLength, func(words []string) error {
		words, err := directive(words)
		if err != nil || len(words) == 0 {
			return err
		}
		first := words[0]
		if slices.Contains(rules, first) && !located {
			return errors.New("default-path config must come first")
		}
		switch first {
		case "global", "defaults", "frontend", "backend", "resolvers":
			section = first
		case "default-path":
			located = true
		case "bind", "server":
			if !located {
				return errors.New("default-path config must come first")
			}
		case "filter":
			if !located {
				return errors.New("default-path config must come first")
			}
			located = false
		}
		if slices.Contains(ofGlobal, first) && section != "global" {
			return fmt.Errorf("%q outside of global", first)
		}
		named[first] = true
		return nil
	})
	if err == nil && !(named["user"] && named["group"]) {
		err = errors.New("HAProxy would keep running as root: user and group are missing")
	}
	return err
}

// directive checks a line alone, and returns its words.
func directive(line []string) ([]string, error) {
	words, err := wordsOf(strings.Join(line, " "))
	if err != nil || len(words) == 0 {
		return nil, err
	}
	if slices.Contains(rules, words[0]) {
		return words, checkRule(words)
	}
	if err := forms.Take(words); err != nil {
		return nil, err
	}
	if words[0] != "setenv" && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, " ") }) {
		return nil, fmt.Errorf("a word contains a space: %q", words)
	}
	return words, nil
}

// checkRule checks a rule about requests.
func checkRule(words []string) error {
	from := 1
	if words[0] != "log-format" {
		if len(words) < 2 || !actions.MatchString(words[1]) {
			return fmt.Errorf("unexpected %q", strings.Join(words, " "))
		}
		if strings.HasSuffix(words[1], "-header") {
			if len(words) < 3 || !headerName.MatchString(words[2]) {
				return fmt.Errorf("unexpected %q", strings.Join(words, " "))
			}
			from = 3 // a header's name may look like a keyword
		}
	}
	return checkExpressions(words[from:])
}

// checkExpressions checks words that HAProxy evaluates for options, functions and files.
func checkExpressions(words []string) error {
	for i, word := range words {
		if strings.HasPrefix(word, "-") && word != "-m" && word != "-i" {
			return fmt.Errorf("unexpected option %q", word)
		}
		if fileWords.MatchString(word) && (i+1 == len(words) || pages[word] == "" || pages[word] != words[i+1]) {
			return fmt.Errorf("reads a file: %q", words[i:])
		}
		for _, at := range function.FindAllStringSubmatchIndex(word, -1) {
			if name := word[at[2]:at[3]]; !slices.Contains(functions, name) && !maps.MatchString(word[at[2]:]) {
				return fmt.Errorf("unexpected %q", word[at[2]:])
			}
		}
	}
	return nil
}

// admitInspection accepts the file that says how HAProxy queries the WAF agent. It may read no other file.
func admitInspection(text string) error {
	known := grammar.Only("[waf]", "args", "groups", "max-frame-size", "maxconnrate", "messages", "no", "option", "spoe-agent", "spoe-group", "spoe-message", "timeout", "use-backend")
	return grammar.Lines(text, grammar.AnyLength, func(words []string) error {
		words, err := wordsOf(strings.Join(words, " "))
		if err != nil || len(words) == 0 {
			return err
		}
		for _, word := range words {
			if strings.Contains(word, "map_") {
				return fmt.Errorf("unexpected %q", word)
			}
		}
		if err := checkExpressions(words[1:]); err != nil {
			return err
		}
		return known(words)
	})
}

// admitPage accepts a page in which the request's id is the only expression.
func admitPage(text string) error {
	if strings.Contains(strings.NewReplacer("%%", "", "%[unique-id]", "").Replace(text), "%") {
		return errors.New("only %[unique-id] may be evaluated")
	}
	return nil
}

var certificate = regexp.MustCompile(`^certificates/(?:default|[0-9a-f-]{36})\.pem(?: [*A-Za-z0-9_.-]+)*$`)

// admitCertificates accepts only names of the gateway's certificates: HAProxy reads them as root.
var admitCertificates = grammar.OnlyLines(certificate.MatchString)

// separator separates the headers of a site. It is the only character that the gateway writes as an escape.
const separator = `\x1f`

// wordsOf splits a line into words as HAProxy does, so that quotes cannot hide a keyword. HAProxy has further escapes, variables
// and trailing comments, which the gateway never writes; they are refused.
func wordsOf(line string) (words []string, err error) {
	var word strings.Builder
	var quote byte
	in := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '"' && (c == '\\' || c == '$'):
			return nil, fmt.Errorf("unexpected %q in double quotes", c)
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			in, quote = true, c
		case strings.HasPrefix(line[i:], `\'`):
			in = true
			word.WriteByte('\'')
			i++
		case strings.HasPrefix(line[i:], separator+")"):
			in = true
			word.WriteString("\x1f")
			i += len(separator) - 1
		case c == '\\':
			return nil, errors.New("unexpected backslash")
		case c == '$' && i+1 < len(line) && line[i+1] != ' ':
			return nil, errors.New("unexpected variable")
		case c == '#':
			return nil, errors.New("unexpected comment after the directive")
		case c == ' ':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			in = true
			word.WriteByte(c)
		}
	}
	if quote != 0 {
		return nil, errors.New("unterminated quote")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}
