package guard

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// directives are HAProxy's that the gateway uses; those with several forms stand with their second word.
var directives = []string{
	"global", "defaults", "frontend", "backend", "resolvers",
	"balance", "cluster-secret", "default_backend", "description", "filter", "h2-workaround-bogus-websocket-clients", "hard-stop-after", "hash-type", "hold", "limited-quic",
	"log-format", "mode", "parse-resolv-conf", "resolve_retries", "retries", "setcap", "ssl-default-bind-ciphers", "ssl-default-bind-options",
	"stick-table", "tune.bufsize", "tune.http.maxhdr", "tune.maxrewrite", "unique-id-format", "use_backend",
	"option httpchk", "option httplog", "option dontlog-normal", "option idle-close-on-response", "option redispatch", "option log-separate-errors", "option spop-check",
	"timeout check", "timeout client", "timeout connect", "timeout http-keep-alive", "timeout http-request", "timeout queue", "timeout retry", "timeout server", "timeout tunnel",
	"http-check send", "http-check expect",
	"http-request", "http-response", "http-after-response", "tcp-request",
}

// reaching are the directives that say who HAProxy is, and which files and sockets it reaches. It reads its files as root.
var reaching = following(map[string]string{
	"bind":         `(?:quic[46]@)?(?:::)?:[0-9]{1,5}(?: v6only)?(?: ssl crt-list (?:certificates|management)\.list alpn [a-z0-9.,/]+)?`,
	"default-path": `config`,
	"group":        `haproxy`,
	"log":          `global|stdout(?: len [0-9]+)? format raw daemon (?:info|notice)|/run/gateway/waf\.sock len [0-9]+ format raw local0 alert`,
	"server":       `[^ /@]+ (?:unix@/run/gateway/(?:api|acme)\.sock|(?:[A-Za-z0-9_.-]+|\[[0-9a-f:.]+\]):[0-9]{1,5})(?: [^@]*(?:@system-ca[^@]*)?)?`,
	"setenv":       `RES_OPTIONS timeout:1 attempts:1`,
	"stats":        `socket /run/haproxy/admin\.sock mode 660 group haproxy level admin expose-fd listeners`,
	"user":         `haproxy`,
})

// files are what makes HAProxy read a file, as root: the word before its name. What stands in a header is no such word.
var files = []string{"errorfile", "errorfiles", "file", "lf-file", "-f", "crt", "crt-list", "ca-file", "ca-verify-file", "crl-file", "ca-base", "crt-base"}

// converters read a file by its name.
var converters = regexp.MustCompile(`\bmap(?:_\w+)?\(([^,)]*)`)

// expressions are evaluated in texts that are otherwise taken as they are.
var expressions = regexp.MustCompile(`%(?:\{[^}]*\})?\[[^\]]*\]?`)

func haproxy(text string) error {
	named := map[string]bool{}
	err := lines(text, anyLength, func(words []string) error {
		words, expands := unescaped(strings.Join(words, " "))
		if len(words) == 0 {
			return nil
		}
		if expands {
			return errors.New("it has a variable, which can be any word")
		}
		if words[0] == "no" && len(words) > 1 {
			words = words[1:]
		}
		first := words[0]
		named[first] = true
		if reaching[first] != nil {
			if err := reaching.take(words); err != nil {
				return err
			}
			if first != "setenv" && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, " ") }) {
				return fmt.Errorf("it has a blank within a word: %q", words)
			}
		}
		if len(words) > 1 && slices.Contains([]string{"option", "timeout", "http-check"}, first) {
			first += " " + words[1]
		}
		if reaching[first] == nil && !slices.Contains(directives, first) {
			return fmt.Errorf("it has %q", first)
		}
		if first == "setcap" && !slices.Equal(words[1:], []string{"cap_net_bind_service"}) {
			return fmt.Errorf("it keeps more than cap_net_bind_service")
		}
		if first == "filter" && strings.Join(words[1:], " ") != "spoe engine waf config spoe.cfg" {
			return fmt.Errorf("it has another filter than that of the web application firewall")
		}
		action := ""
		if slices.Contains([]string{"http-request", "http-response", "http-after-response", "tcp-request", "http-check"}, words[0]) && len(words) > 1 {
			action = words[1]
			if strings.HasPrefix(action, "lua.") || action == "use-service" {
				return fmt.Errorf("it has %q", action)
			}
		}
		header := strings.HasSuffix(action, "-header")
		for i, word := range words {
			if i > 0 && !header && slices.Contains(files, words[i-1]) && !below(word) {
				return fmt.Errorf("it reads %s", word)
			}
			evaluated := []string{word}
			if header && i < 4 {
				evaluated = expressions.FindAllString(strings.ReplaceAll(word, "%%", ""), -1)
			}
			for _, e := range evaluated {
				for _, m := range converters.FindAllStringSubmatch(e, -1) {
					if !below(m[1]) {
						return fmt.Errorf("it reads %s", m[1])
					}
				}
			}
		}
		return nil
	})
	if err == nil && !(named["user"] && named["group"]) {
		err = errors.New("it leaves HAProxy the rights of root")
	}
	return err
}

// spoe is how HAProxy asks the web application firewall: through a backend of its own configuration, and of no other file.
func spoe(text string) error {
	known := only("[waf]", "args", "groups", "max-frame-size", "maxconnrate", "messages", "no", "option", "spoe-agent", "spoe-group", "spoe-message", "timeout", "use-backend")
	return lines(text, anyLength, func(words []string) error {
		words, expands := unescaped(strings.Join(words, " "))
		if len(words) == 0 {
			return nil
		}
		if expands {
			return errors.New("it has a variable, which can be any word")
		}
		for _, m := range converters.FindAllStringSubmatch(strings.Join(words, " "), -1) {
			return fmt.Errorf("it reads %s", m[1])
		}
		return known(words)
	})
}

// page is what HAProxy evaluates before it answers it.
func page(text string) error {
	if strings.Contains(strings.NewReplacer("%%", "", "%[unique-id]", "").Replace(text), "%") {
		return errors.New("it has more to evaluate than the number of the request")
	}
	return nil
}

var certificate = regexp.MustCompile(`^certificates/(?:default|[0-9a-f-]{36})\.pem(?: [*A-Za-z0-9_.-]+)*$`)

// certificates names files with keys, which HAProxy reads as root.
var certificates = onlyLines(certificate.MatchString)

// below tells whether a name leads to a file of the gateway's: relative to its configuration, and not out of there.
func below(name string) bool {
	return !strings.HasPrefix(name, "/") && !slices.Contains(strings.Split(name, "/"), "..") && !strings.Contains(name, "$")
}

// unescaped splits a line into words as HAProxy does: quotes and back slashes do not hide what a word is. Expands says that one has a
// variable of the environment in it.
func unescaped(line string) (words []string, expands bool) {
	var word strings.Builder
	var quote rune
	in, escaped := false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			in, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			in, quote = true, r
		case quote == 0 && r == '#' && !in:
			return words, expands
		case quote == 0 && (r == ' ' || r == '\t'):
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			in = true
			expands = expands || r == '$' && quote == '"'
			word.WriteRune(r)
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words, expands
}
