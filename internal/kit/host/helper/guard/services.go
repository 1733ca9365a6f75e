package guard

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"edge.internal/gateway/internal/kit/host"
)

func chrony(text string) error { return lines(text, longest, chronyForms.take) }

var chronyForms = following(map[string]string{
	"allow":       address,
	"bindaddress": address,
	"confdir":     `/etc/chrony/conf\.d`,
	"driftfile":   `/var/lib/chrony/chrony\.drift`,
	"makestep":    `[0-9.]+ -?[0-9]+`,
	"pool":        timeSource,
	"port":        `[0-9]{1,5}`,
	"rtcsync":     ``,
	"server":      timeSource,
})

const timeSource = `[A-Za-z0-9_.:-]+(?: (?:iburst|prefer|(?:minpoll|maxpoll) -?[0-9]{1,2}))*`

// unbound reads statements wherever they stand: behind the value of one, the next may begin in the same line.
func unbound(text string) error { return lines(text, anyLength, unboundForms.take) }

// resolverValue is one value, as unbound finds its end.
const resolverValue = `(?:[^ "'\\#][^ "'\\]*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')`

var unboundForms = func() forms {
	rest := map[string]string{
		"access-control:":    resolverValue + " allow",
		"chroot:":            `""`,
		"control-interface:": host.ResolverSocket,
		"directory:":         `"/etc/unbound"`,
		"forward-zone:":      ``,
		"include-toplevel:":  `"/etc/unbound/gateway\.conf\.d/\*\.conf"`,
		"local-zone:":        resolverValue + " [a-z_]+",
		"logfile:":           `""`,
		"module-config:":     `"(?:validator )?iterator"`,
		"remote-control:":    ``,
		"server:":            ``,
		"stub-zone:":         ``,
		"trust-anchor-file:": `"/usr/share/dns/root\.key"`,
		"username:":          `unbound`,
	}
	for _, key := range []string{
		"aggressive-nsec", "cache-max-ttl", "cache-min-ttl", "control-enable", "control-use-cert", "deny-any", "do-not-query-localhost", "domain-insecure", "extended-statistics",
		"forward-addr", "harden-large-queries", "harden-short-bufsize", "hide-identity", "hide-version", "interface", "interface-automatic", "ip-freebind", "local-data",
		"msg-cache-size", "name", "num-threads", "prefetch", "prefetch-key", "qname-minimisation", "rrset-cache-size", "so-reuseport", "stub-addr", "stub-first", "stub-no-cache",
		"unwanted-reply-threshold", "use-syslog",
	} {
		rest[key+":"] = resolverValue
	}
	return following(rest)
}()

func squid(text string) error { return lines(text, longest, squidForms.take) }

var squidForms = following(map[string]string{
	"access_log": `none gateway_manager|stdio:/var/log/squid/access\.log`,
	// A quoted name would be that of a file to read.
	"acl":                           `gateway_[a-z0-9_]+ (?:(?:src|dst) (?:ipv4|ipv6|[0-9a-f.:/-]+)|localport [0-9]+|port 80 443|external gateway_judge|note [a-z_]+ [0-9a-z-]+)`,
	"cache":                         `deny all`,
	"cache_mem":                     `[0-9]+ MB`,
	"coredump_dir":                  `/var/spool/squid`,
	"email_err_data":                `off`,
	"external_acl_type":             `gateway_judge(?: [a-z_-]+=[0-9]+)*(?: %[A-Za-z>]+)* ` + host.JudgeProgram + ` [0-9a-f]{32} ` + host.SquidAccessList.Path() + ` /run/squid/gateway-acl\.sock`,
	"forwarded_for":                 `delete`,
	"http_access":                   `(?:allow|deny)(?: !?(?:gateway_[a-z0-9_]+|manager|localhost|all))+`,
	"http_port":                     `(?:(?:[0-9.]+|\[[0-9a-f:.]+\]):)?[0-9]{1,5}`,
	"httpd_suppress_version_string": `on`,
	"include":                       `/etc/squid/conf\.d/\*\.conf`,
	"logfile_rotate":                `0`,
	"pid_filename":                  `/run/squid\.pid`,
	"pinger_enable":                 `off`,
	"shutdown_lifetime":             `[0-9]+ seconds?`,
	"stats_collection":              `deny gateway_manager`,
	"visible_hostname":              `gateway`,
})

// keaFile is what the gateway says to Kea: what it loads, and where it reads and writes; of all else, that it is there.
type keaFile struct {
	Dhcp4 struct {
		Hooks []struct {
			Library string `json:"library"`
		} `json:"hooks-libraries"`
		Control struct {
			Type string `json:"socket-type"`
			Name string `json:"socket-name"`
		} `json:"control-socket"`
		Leases struct {
			Type    string         `json:"type"`
			Persist jsontext.Value `json:"persist"`
			Name    string         `json:"name"`
			Cleanup jsontext.Value `json:"lfc-interval"`
		} `json:"lease-database"`
		Loggers []struct {
			Name     jsontext.Value `json:"name"`
			Severity jsontext.Value `json:"severity"`
			Outputs  []struct {
				Output  string         `json:"output"`
				Pattern jsontext.Value `json:"pattern"`
			} `json:"output_options"`
		} `json:"loggers"`

		Mark          jsontext.Value `json:"server-tag"`
		Interfaces    jsontext.Value `json:"interfaces-config"`
		Checks        jsontext.Value `json:"sanity-checks"`
		Authoritative jsontext.Value `json:"authoritative"`
		ByClientID    jsontext.Value `json:"match-client-id"`
		DefaultLife   jsontext.Value `json:"valid-lifetime"`
		ShortestLife  jsontext.Value `json:"min-valid-lifetime"`
		LongestLife   jsontext.Value `json:"max-valid-lifetime"`
		Timers        jsontext.Value `json:"calculate-tee-times"`
		Identifiers   jsontext.Value `json:"host-reservation-identifiers"`
		Global        jsontext.Value `json:"reservations-global"`
		InSubnet      jsontext.Value `json:"reservations-in-subnet"`
		OutOfPool     jsontext.Value `json:"reservations-out-of-pool"`
		Expired       jsontext.Value `json:"expired-leases-processing"`
		Subnets       jsontext.Value `json:"subnet4"`
	}
}

// kea refuses every library but the one that tells leases, and every file but those of Kea's own.
func kea(text string) error {
	var file keaFile
	// Kea's own grammar is wider: comments, names that come twice, and files that it includes.
	if err := json.Unmarshal([]byte(text), &file, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("it is not the gateway's JSON: %w", err)
	}
	paths := host.LeaseServer()
	for _, h := range file.Dhcp4.Hooks {
		if h.Library != paths.LeaseCommands {
			return fmt.Errorf("it loads %s", h.Library)
		}
	}
	if c := file.Dhcp4.Control; c.Name != "" && (c.Type != "unix" || c.Name != paths.Control) {
		return fmt.Errorf("it takes commands at %s %s", c.Type, c.Name)
	}
	if l := file.Dhcp4.Leases; l.Type != "" && (l.Type != "memfile" || l.Name != paths.Leases) {
		return fmt.Errorf("it keeps leases in %s %s", l.Type, l.Name)
	}
	for _, l := range file.Dhcp4.Loggers {
		for _, o := range l.Outputs {
			if o.Output != "stdout" {
				return fmt.Errorf("it logs to %s", o.Output)
			}
		}
	}
	return nil
}
