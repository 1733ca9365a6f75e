package guard

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

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

// What values of unbound's are made of. In a text in quotes nothing has a meaning but a back slash, which keeps a quote from ending it.
const (
	resolverName    = `"[A-Za-z0-9_.*-]+"`
	resolverAddress = `"?[0-9a-f.:]+(?:@[0-9]{1,5})?"?`
	resolverNumber  = `[0-9]{1,10}m?`
	resolverRecord  = `(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')`
)

var unboundForms = func() forms {
	rest := map[string]string{
		"access-control:":    `"` + address + `" allow`,
		"chroot:":            `""`,
		"control-interface:": host.ResolverSocket,
		"directory:":         `"/etc/unbound"`,
		"domain-insecure:":   resolverName,
		"forward-zone:":      ``,
		"include-toplevel:":  `"/etc/unbound/gateway\.conf\.d/\*\.conf"`,
		"local-data:":        resolverRecord,
		"local-zone:":        resolverName + " (?:redirect|transparent)",
		"logfile:":           `""`,
		"module-config:":     `"(?:validator )?iterator"`,
		"name:":              resolverName,
		"remote-control:":    ``,
		"server:":            ``,
		"stub-zone:":         ``,
		"trust-anchor-file:": `"/usr/share/dns/root\.key"`,
		"username:":          `unbound`,
	}
	for form, keys := range map[string]string{
		"yes|no": "aggressive-nsec control-enable control-use-cert deny-any do-not-query-localhost extended-statistics harden-large-queries harden-short-bufsize hide-identity hide-version " +
			"interface-automatic ip-freebind prefetch prefetch-key qname-minimisation so-reuseport stub-first stub-no-cache use-syslog",
		resolverNumber:  "cache-max-ttl cache-min-ttl msg-cache-size num-threads rrset-cache-size unwanted-reply-threshold",
		resolverAddress: "forward-addr interface stub-addr",
	} {
		for key := range strings.FieldsSeq(keys) {
			rest[key+":"] = form
		}
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
	"pid_filename":                  `/run/gateway-squid/squid\.pid`,
	"pinger_enable":                 `off`,
	"shutdown_lifetime":             `[0-9]+ seconds?`,
	"stats_collection":              `deny gateway_manager`,
	"visible_hostname":              `gateway`,
})

// keaFile is all that the gateway says to Kea.
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
			Type    string `json:"type"`
			Persist bool   `json:"persist"`
			Name    string `json:"name"`
			Cleanup int    `json:"lfc-interval"`
		} `json:"lease-database"`
		Loggers []struct {
			Name     string `json:"name"`
			Severity string `json:"severity"`
			Outputs  []struct {
				Output  string `json:"output"`
				Pattern string `json:"pattern"`
			} `json:"output_options"`
		} `json:"loggers"`
		Interfaces struct {
			Names   []string       `json:"interfaces"`
			Socket  string         `json:"dhcp-socket-type"`
			Retries uint32         `json:"service-sockets-max-retries"`
			Wait    int            `json:"service-sockets-retry-wait-time"`
			Context jsontext.Value `json:"user-context"` // which Kea keeps and does not read
		} `json:"interfaces-config"`
		Checks struct {
			Leases string `json:"lease-checks"`
		} `json:"sanity-checks"`
		Expired struct {
			Hold int `json:"hold-reclaimed-time"`
		} `json:"expired-leases-processing"`
		Subnets []struct {
			ID        uint32       `json:"id"`
			Network   netip.Prefix `json:"subnet"`
			Interface string       `json:"interface"`
			Life      int          `json:"valid-lifetime"`
			Pools     []struct {
				Pool string `json:"pool"`
			} `json:"pools"`
			Options []struct {
				Name string `json:"name"`
				Data string `json:"data"`
			} `json:"option-data"`
			Reservations []struct {
				MAC  string `json:"hw-address"`
				IP   string `json:"ip-address"`
				Name string `json:"hostname"`
			} `json:"reservations"`
		} `json:"subnet4"`

		Mark          string   `json:"server-tag"`
		Authoritative bool     `json:"authoritative"`
		ByClientID    bool     `json:"match-client-id"`
		DefaultLife   int      `json:"valid-lifetime"`
		ShortestLife  int      `json:"min-valid-lifetime"`
		LongestLife   int      `json:"max-valid-lifetime"`
		Timers        bool     `json:"calculate-tee-times"`
		Identifiers   []string `json:"host-reservation-identifiers"`
		Global        bool     `json:"reservations-global"`
		InSubnet      bool     `json:"reservations-in-subnet"`
		OutOfPool     bool     `json:"reservations-out-of-pool"`
	}
}

var (
	keaLogger = regexp.MustCompile(`^kea-dhcp4(?:\.[a-z0-9]+)?$`)
	keaLink   = regexp.MustCompile(`^` + link + `$`)
	// keaOptions are what clients are told, and in which form.
	keaOptions = following(map[string]string{
		"routers": `[0-9.]+`, "domain-name-servers": keaAddresses, "ntp-servers": keaAddresses, "domain-name": `[A-Za-z0-9_.-]+`,
	})
)

const keaAddresses = `[0-9.]+(?:, [0-9.]+)*`

// kea refuses every library but the one that tells leases, every file but those of Kea's own, and whatever the gateway never says.
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
		if !keaLogger.MatchString(l.Name) {
			return fmt.Errorf("it logs %s", l.Name)
		}
		for _, o := range l.Outputs {
			if o.Output != "stdout" {
				return fmt.Errorf("it logs to %s", o.Output)
			}
		}
	}
	for _, name := range file.Dhcp4.Interfaces.Names {
		if !keaLink.MatchString(name) {
			return fmt.Errorf("it serves %q", name)
		}
	}
	for _, s := range file.Dhcp4.Subnets {
		for _, o := range s.Options {
			if err := keaOptions.take([]string{o.Name, o.Data}); err != nil {
				return err
			}
		}
	}
	return nil
}
