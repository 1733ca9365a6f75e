// Package guard refuses configurations that would make a daemon run something, load something, or read what is not the gateway's.
//
// Who asks for a file to be installed need not be who it seems. So the helper takes only what the gateway's own renderers write: of each
// grammar the directives that they use, and nothing else.
package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

// contentLimit is how long a file may be.
const contentLimit = 64 << 20

// Admit complains about a file that no renderer of the gateway writes.
func Admit(f host.File) error {
	if len(f.Content) > contentLimit {
		return fmt.Errorf("%s is longer than %d MiB", f.Place, contentLimit>>20)
	}
	look, ok := grammars[f.Place]
	if !ok {
		return nil // a list, a page or a key: nothing in it is a directive
	}
	if err := look(string(f.Content)); err != nil {
		return fmt.Errorf("%s is not for the gateway to write: %w", f.Place, err)
	}
	return nil
}

// Around is a machine that writes and tries only what is admitted.
func Around(m host.Machine) host.Machine { return guarded{m} }

type guarded struct{ host.Machine }

func (g guarded) Install(p host.Place, content []byte) error {
	if err := Admit(host.File{Place: p, Content: content}); err != nil {
		return err
	}
	return g.Machine.Install(p, content)
}

func (g guarded) Run(ctx context.Context, c host.Command, in host.Input) (host.Output, error) {
	for _, f := range in.Staged {
		if err := Admit(f); err != nil {
			return host.Output{}, err
		}
	}
	return g.Machine.Run(ctx, c, in)
}

func (g guarded) FilterDigestOf(ctx context.Context, f host.File) (string, error) {
	if err := Admit(f); err != nil {
		return "", err
	}
	return g.Machine.FilterDigestOf(ctx, f)
}

// grammars are those of the places that hold directives.
var grammars = map[host.Place]func(text string) error{
	host.ChronyMain:        chrony,
	host.ChronyDropIn:      chrony,
	host.UnboundMain:       unbound,
	host.UnboundDropIn:     unbound,
	host.SquidMain:         squid,
	host.SquidDropIn:       squid,
	host.KeaConfig:         kea,
	host.RadiusConfig:      radius,
	host.RadiusClients:     radius,
	host.RadiusUsers:       users,
	host.ProxyConfig:       haproxy,
	host.ProxyInspection:   spoe,
	host.PacketFilterTable: nft,

	host.DetectionConfig:    crowdSec[host.DetectionConfig].only,
	host.DetectionSources:   crowdSec[host.DetectionSources].only,
	host.DetectionProfiles:  crowdSec[host.DetectionProfiles].only,
	host.DetectionParsers:   crowdSec[host.DetectionParsers].only,
	host.DetectionAllowList: crowdSec[host.DetectionAllowList].only,
	host.DetectionScenarios: crowdSec[host.DetectionScenarios].only,
	host.DetectionBouncer:   crowdSec[host.DetectionBouncer].only,
}

// lines calls look with the words of every line that has some.
func lines(text string, look func(words []string) error) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := look(words); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// only refuses every directive but some.
func only(directives ...string) func(words []string) error {
	return func(words []string) error {
		if !slices.Contains(directives, words[0]) {
			return fmt.Errorf("it has %q", words[0])
		}
		return nil
	}
}

func chrony(text string) error {
	known := only("allow", "bindaddress", "confdir", "driftfile", "makestep", "pool", "port", "rtcsync", "server")
	return lines(text, func(words []string) error {
		if words[0] == "confdir" && !slices.Equal(words[1:], []string{"/etc/chrony/conf.d"}) {
			return fmt.Errorf("it reads %s", strings.Join(words[1:], " "))
		}
		return known(words)
	})
}

func unbound(text string) error {
	known := only("access-control:", "aggressive-nsec:", "cache-max-ttl:", "cache-min-ttl:", "chroot:", "control-enable:", "control-interface:", "control-use-cert:",
		"deny-any:", "directory:", "do-not-query-localhost:", "domain-insecure:", "extended-statistics:", "forward-addr:", "forward-first:", "forward-tls-upstream:", "forward-zone:",
		"harden-large-queries:", "harden-short-bufsize:", "hide-identity:", "hide-version:", "include-toplevel:", "interface-automatic:", "interface:", "ip-freebind:", "local-data:", "local-zone:",
		"logfile:", "module-config:", "msg-cache-size:", "name:", "num-threads:", "prefetch-key:", "prefetch:", "qname-minimisation:", "remote-control:", "rrset-cache-size:",
		"server:", "so-reuseport:", "stub-addr:", "stub-first:", "stub-no-cache:", "stub-zone:", "tls-cert-bundle:", "trust-anchor-file:", "unwanted-reply-threshold:", "use-syslog:", "username:")
	exact := map[string]string{
		"include-toplevel:":  `"/etc/unbound/gateway.conf.d/*.conf"`,
		"trust-anchor-file:": `"/usr/share/dns/root.key"`,
		"control-interface:": host.ResolverSocket,
		"logfile:":           `""`,
		"chroot:":            `""`,
	}
	return lines(text, func(words []string) error {
		if words[0] == "module-config:" && !slices.Contains([]string{"iterator", "validator iterator"}, unquoted(strings.Join(words[1:], " "))) {
			return fmt.Errorf("it has %s", strings.Join(words, " "))
		}
		if want, ok := exact[words[0]]; ok && unquoted(strings.Join(words[1:], " ")) != unquoted(want) {
			return fmt.Errorf("it has %s", strings.Join(words, " "))
		}
		return known(words)
	})
}

func unquoted(s string) string { return strings.Trim(s, `"'`) }

func squid(text string) error {
	known := only("access_log", "acl", "cache", "cache_mem", "coredump_dir", "email_err_data", "external_acl_type", "forwarded_for", "http_access", "http_port",
		"httpd_suppress_version_string", "include", "logfile_rotate", "pid_filename", "pinger_enable", "shutdown_lifetime", "stats_collection", "visible_hostname")
	return lines(text, func(words []string) error {
		switch words[0] {
		case "external_acl_type":
			// The first word that is a path is the program.
			if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "/") }); i < 0 || words[i] != host.JudgeProgram {
				return fmt.Errorf("it runs another program than %s", host.JudgeProgram)
			}
		case "access_log":
			if words[1] != "none" && !strings.HasPrefix(words[1], "stdio:/var/log/squid/") && !strings.HasPrefix(words[1], "daemon:/var/log/squid/") {
				return fmt.Errorf("it logs to %s", words[1])
			}
		case "include":
			if !slices.Equal(words[1:], []string{host.SquidDropIn.Path()}) && !slices.Equal(words[1:], []string{"/etc/squid/conf.d/*.conf"}) {
				return fmt.Errorf("it reads %s", strings.Join(words[1:], " "))
			}
		case "acl":
			// A quoted name is that of a file to read.
			if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, `"`) }) {
				return fmt.Errorf("it reads a file: %s", strings.Join(words, " "))
			}
		}
		return known(words)
	})
}

// kea refuses every library but the one that tells leases.
func kea(text string) error {
	var file struct {
		Dhcp4 struct {
			Hooks []struct {
				Library string `json:"library"`
			} `json:"hooks-libraries"`
			Control struct {
				Name string `json:"socket-name"`
			} `json:"control-socket"`
			Leases struct {
				Type string `json:"type"`
				Name string `json:"name"`
			} `json:"lease-database"`
		}
	}
	// Kea's own grammar is wider: comments, and files that it includes.
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	paths := host.LeaseServer()
	for _, h := range file.Dhcp4.Hooks {
		if h.Library != paths.LeaseCommands {
			return fmt.Errorf("it loads %s", h.Library)
		}
	}
	if name := file.Dhcp4.Control.Name; name != "" && name != paths.Control {
		return fmt.Errorf("it takes commands at %s", name)
	}
	if l := file.Dhcp4.Leases; l.Type != "" && (l.Type != "memfile" || l.Name != paths.Leases) {
		return fmt.Errorf("it keeps leases in %s %s", l.Type, l.Name)
	}
	return nil
}

// runs is what makes FreeRADIUS run or load something, write where it should not, or read another file.
var runs = regexp.MustCompile("`|\\bexec\\b|%\\{(?:exec|sql|ldap|perl|python|rest|redis|cache|file|unpack)|\\b(?:perl|python3?|ruby|mruby|lua|rlm_\\w+|sql\\w*|ldap|rest|redis\\w*|unix|passwd|detail|cache\\w*|program|script\\w*)\\b *[{=]")

func radius(text string) error {
	folder := map[string]string{
		"libdir": "/usr/lib/freeradius", "logdir": "/var/log/freeradius", "run_dir": "/run/freeradius", "prefix": "/usr",
		"filename": "${confdir}/gateway-users ${logdir}/gateway-logins.log", "file": "${logdir}/radius.log", "pidfile": "${run_dir}/freeradius.pid",
	}
	return radiusLines(text, "'", func(line string, words []string) error {
		if at := runs.FindString(line); at != "" {
			return fmt.Errorf("it has %q", at)
		}
		if strings.HasPrefix(words[0], "$INCLUDE") && !slices.Equal(words[1:], []string{"gateway-clients.conf"}) {
			return fmt.Errorf("it reads %s", strings.Join(words[1:], " "))
		}
		if want, ok := folder[words[0]]; ok && len(words) == 3 && words[1] == "=" && !slices.Contains(strings.Fields(want), words[2]) {
			return fmt.Errorf("it has %s", strings.Join(words, " "))
		}
		return nil
	})
}

// users is the file of users, in which a value in back quotes is a command, and one in double quotes is evaluated.
func users(text string) error {
	return radiusLines(text, `'\`, func(line string, _ []string) error {
		if strings.ContainsAny(line, "`\"$%") || strings.Contains(line, "Exec-Program") {
			return fmt.Errorf("it runs or reads something")
		}
		return nil
	})
}

// radiusLines calls look with every line and its words, in which texts in single quotes are empty: nothing in them is evaluated. In such a
// text a back slash stands before one of the escaped characters alone, so that there are no two ways to read it.
func radiusLines(text, escaped string, look func(line string, words []string) error) error {
	return lines(text, func(words []string) error {
		var bare strings.Builder
		line := strings.Join(words, " ")
		in := false
		for i := 0; i < len(line); i++ {
			switch {
			case !in:
				bare.WriteByte(line[i])
				in = line[i] == '\''
			case line[i] == '\\':
				if i++; i == len(line) || !strings.Contains(escaped, line[i:i+1]) {
					return fmt.Errorf("a back slash in a text can be read in two ways")
				}
			case line[i] == '\'':
				bare.WriteByte('\'')
				in = false
			}
		}
		if in {
			return fmt.Errorf("a text does not end")
		}
		return look(bare.String(), strings.Fields(bare.String()))
	})
}

var quoted = regexp.MustCompile(`"[^"]*"`)

// nft refuses to read other files.
func nft(text string) error {
	return lines(text, func(words []string) error {
		// A text has no escapes; what remains can only be a directive.
		if strings.Contains(quoted.ReplaceAllString(strings.Join(words, " "), ""), "include") {
			return fmt.Errorf("it reads another file")
		}
		return nil
	})
}
