package guard

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// directives are HAProxy's that the gateway uses; those with several forms stand with their second word.
var directives = []string{
	"global", "defaults", "frontend", "backend", "resolvers", "cache", "listen", "peers", "ring",
	"balance", "bind", "cluster-secret", "default-path", "default_backend", "description", "group", "user", "hard-stop-after", "hash-type", "hold", "limited-quic",
	"log", "log-format", "maxconn", "mode", "parse-resolv-conf", "resolve_retries", "retries", "server", "setcap", "setenv", "ssl-default-bind-ciphers", "ssl-default-bind-options",
	"stick-table", "tune.bufsize", "tune.http.maxhdr", "tune.maxrewrite", "unique-id-format", "use_backend", "acl", "filter", "nameserver", "accepted_payload_size",
	"stats socket", "stats timeout",
	"option httpchk", "option httplog", "option dontlog-normal", "option idle-close-on-response", "option redispatch", "option forwardfor", "option tcp-check", "option log-separate-errors", "option spop-check",
	"timeout check", "timeout client", "timeout connect", "timeout http-keep-alive", "timeout http-request", "timeout queue", "timeout retry", "timeout server",
	"timeout tunnel", "timeout resolve", "timeout tarpit",
	"http-check send", "http-check expect", "http-check connect",
	"http-request", "http-response", "http-after-response", "tcp-request",
}

// files are what makes HAProxy read a file, as root: the word before its name. What stands in a header is no such word.
var files = []string{"errorfile", "errorfiles", "file", "lf-file", "-f", "crt", "crt-list", "ca-file", "ca-verify-file", "crl-file", "ca-base", "crt-base"}

// converters read a file by its name.
var converters = regexp.MustCompile(`\bmap(?:_\w+)?\(([^,)]*)`)

// expressions are evaluated in texts that are otherwise taken as they are.
var expressions = regexp.MustCompile(`%\[[^\]]*\]?`)

func haproxy(text string) error {
	return lines(text, func(words []string) error {
		words = unescaped(strings.Join(words, " "))
		first := words[0]
		if first == "no" && len(words) > 1 {
			words = words[1:]
			first = words[0]
		}
		if len(words) > 1 && slices.Contains([]string{"stats", "option", "timeout", "http-check"}, first) {
			first += " " + words[1]
		}
		if !slices.Contains(directives, first) {
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
}

// spoe is how HAProxy asks the web application firewall: through a backend of its own configuration, and of no other file.
func spoe(text string) error {
	known := only("[waf]", "args", "groups", "max-frame-size", "messages", "no", "option", "spoe-agent", "spoe-group", "spoe-message", "timeout", "use-backend")
	return lines(text, func(words []string) error {
		words = unescaped(strings.Join(words, " "))
		if len(words) == 0 {
			return nil
		}
		for _, m := range converters.FindAllStringSubmatch(strings.Join(words, " "), -1) {
			return fmt.Errorf("it reads %s", m[1])
		}
		return known(words)
	})
}

// below tells whether a name leads to a file of the gateway's: relative to its configuration, and not out of there.
func below(name string) bool {
	return !strings.HasPrefix(name, "/") && !slices.Contains(strings.Split(name, "/"), "..") && !strings.Contains(name, "$")
}

// unescaped splits a line into words as HAProxy does: quotes and back slashes do not hide what a word is.
func unescaped(line string) []string {
	var words []string
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
			return words
		case quote == 0 && (r == ' ' || r == '\t'):
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		default:
			in = true
			word.WriteRune(r)
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}
