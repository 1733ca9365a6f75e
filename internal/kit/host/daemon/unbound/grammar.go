package unbound

import (
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon/grammar"
)

// admit accepts only the gateway's own statements. Each must be alone on its line, because unbound would accept several.
func admit(text string) error { return grammar.Lines(text, grammar.AnyLength, forms.Take) }

// Building blocks of values. Within quotes, only a backslash is special: it keeps a quote from ending the text.
const (
	name    = `"[A-Za-z0-9_.*-]+"`
	address = `"?[0-9a-f.:]+(?:@[0-9]{1,5})?"?`
	number  = `[0-9]{1,10}m?`
	record  = `(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')`
)

var forms = func() grammar.Forms {
	rest := map[string]string{
		"access-control:":    `"` + grammar.Address + `" allow`,
		"chroot:":            `""`,
		"control-interface:": Socket,
		"directory:":         `"/etc/unbound"`,
		"domain-insecure:":   name,
		"forward-zone:":      ``,
		"include-toplevel:":  `"/etc/unbound/gateway\.conf\.d/\*\.conf"`,
		"local-data:":        record,
		"local-zone:":        name + " (?:redirect|transparent)",
		"logfile:":           `""`,
		"module-config:":     `"(?:validator )?iterator"`,
		"name:":              name,
		"remote-control:":    ``,
		"server:":            ``,
		"stub-zone:":         ``,
		"trust-anchor-file:": `"/usr/share/dns/root\.key"`,
		"username:":          `unbound`,
	}
	for form, keys := range map[string]string{
		"yes|no": "aggressive-nsec control-enable control-use-cert deny-any do-not-query-localhost extended-statistics harden-large-queries harden-short-bufsize hide-identity hide-version " +
			"interface-automatic ip-freebind prefetch prefetch-key qname-minimisation so-reuseport stub-first stub-no-cache use-syslog",
		number:  "cache-max-ttl cache-min-ttl msg-cache-size num-threads rrset-cache-size unwanted-reply-threshold",
		address: "forward-addr interface stub-addr",
	} {
		for key := range strings.FieldsSeq(keys) {
			rest[key+":"] = form
		}
	}
	return grammar.Following(rest)
}()
