package ids

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
)

// CrowdSec's file formats. They contain no free text of an operator.
type (
	mainFile struct {
		Common     commonPart     `json:"common"`
		Paths      pathsPart      `json:"config_paths"`
		Agent      agentPart      `json:"crowdsec_service"`
		Tool       toolPart       `json:"cscli"`
		Database   databasePart   `json:"db_config"`
		Plugins    pluginsPart    `json:"plugin_config"`
		API        apiPart        `json:"api"`
		Prometheus prometheusPart `json:"prometheus"`
	}
	commonPart struct {
		Daemonize  bool   `json:"daemonize"`
		LogMedia   string `json:"log_media"`
		LogLevel   string `json:"log_level"`
		WorkingDir string `json:"working_dir"`
	}
	pathsPart struct {
		Config        string `json:"config_dir"`
		Data          string `json:"data_dir"`
		Simulation    string `json:"simulation_path"`
		Hub           string `json:"hub_dir"`
		Index         string `json:"index_path"`
		Notifications string `json:"notification_dir"`
		Plugins       string `json:"plugin_dir"`
	}
	agentPart struct {
		Sources  string `json:"acquisition_path"`
		Routines int    `json:"parser_routines"`
	}
	toolPart struct {
		Output    string `json:"output"`
		HubBranch string `json:"hub_branch"`
	}
	databasePart struct {
		LogLevel string    `json:"log_level"`
		Type     string    `json:"type"`
		Path     string    `json:"db_path"`
		WAL      bool      `json:"use_wal"`
		Flush    flushPart `json:"flush"`
	}
	flushPart struct {
		Items int    `json:"max_items"`
		Age   string `json:"max_age"`
	}
	pluginsPart struct {
		User  string `json:"user"`
		Group string `json:"group"`
	}
	apiPart struct {
		Client clientPart `json:"client"`
		Server serverPart `json:"server"`
	}
	clientPart struct {
		Insecure    bool   `json:"insecure_skip_verify"`
		Credentials string `json:"credentials_path"`
	}
	serverPart struct {
		LogLevel string     `json:"log_level"`
		Listen   string     `json:"listen_uri"`
		Profiles string     `json:"profiles_path"`
		Console  string     `json:"console_path"`
		Central  onlinePart `json:"online_client"`
		Trusted  []string   `json:"trusted_ips"`
	}
	onlinePart struct {
		Credentials string `json:"credentials_path"`
	}
	prometheusPart struct {
		Enabled bool `json:"enabled"`
	}

	source struct {
		Source    string   `json:"source"`
		Filenames []string `json:"filenames,omitempty"`
		Watch     bool     `json:"force_inotify,omitzero"`
		Journal   []string `json:"journalctl_filter,omitempty"`
		Labels    label    `json:"labels"`
	}
	label struct {
		Type string `json:"type"`
	}

	profile struct {
		Name      string     `json:"name"`
		Filters   []string   `json:"filters"`
		Decisions []sentence `json:"decisions"`
		OnSuccess string     `json:"on_success"`
	}
	sentence struct {
		Type     string   `json:"type"`
		Duration Duration `json:"duration"`
	}

	parser struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Filter      string   `json:"filter"`
		OnSuccess   string   `json:"onsuccess"`
		Grok        *grok    `json:"grok,omitempty"`
		Statics     []static `json:"statics"`
	}
	grok struct {
		Pattern string `json:"pattern"`
		ApplyOn string `json:"apply_on"`
	}
	static struct {
		Meta       string `json:"meta,omitempty"`
		Parsed     string `json:"parsed,omitempty"`
		Target     string `json:"target,omitempty"`
		Value      string `json:"value,omitempty"`
		Expression string `json:"expression,omitempty"`
	}
	allowList struct {
		Name        string    `json:"name"`
		Description string    `json:"description"`
		Filter      string    `json:"filter"`
		Whitelist   whitelist `json:"whitelist"`
	}
	whitelist struct {
		Reason string   `json:"reason"`
		CIDR   []string `json:"cidr"`
	}

	scenario struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Filter      string         `json:"filter"`
		GroupBy     string         `json:"groupby"`
		Distinct    string         `json:"distinct"`
		Capacity    int            `json:"capacity"`
		LeakSpeed   string         `json:"leakspeed"`
		Blackhole   string         `json:"blackhole"`
		Labels      scenarioLabels `json:"labels"`
	}
	scenarioLabels struct {
		Service     string `json:"service"`
		Type        string `json:"type"`
		Remediation bool   `json:"remediation"`
	}

	bouncerFile struct {
		Mode        string         `json:"mode"`
		PIDFolder   string         `json:"pid_dir"`
		Update      string         `json:"update_frequency"`
		Daemonize   bool           `json:"daemonize"`
		LogMode     string         `json:"log_mode"`
		LogLevel    string         `json:"log_level"`
		URL         string         `json:"api_url"`
		Key         Key            `json:"api_key"`
		DisableIPv6 bool           `json:"disable_ipv6"`
		Action      string         `json:"deny_action"`
		Log         bool           `json:"deny_log"`
		Supported   []string       `json:"supported_decisions_types"`
		IPv4        string         `json:"blacklists_ipv4"`
		IPv6        string         `json:"blacklists_ipv6"`
		Nftables    nftablesPart   `json:"nftables"`
		Prometheus  prometheusPart `json:"prometheus"`
	}
	nftablesPart struct {
		IPv4 tablePart `json:"ipv4"`
		IPv6 tablePart `json:"ipv6"`
	}
	tablePart struct {
		Enabled bool   `json:"enabled"`
		SetOnly bool   `json:"set-only"`
		Table   string `json:"table"`
		Chain   string `json:"chain"`
	}
)

// main is the same for every gateway. Parsers, scenarios and the database stay where the package has them, so that what an operator
// installs with cscli is used. An account for the central API is up to the operator; without one, nothing is sent or fetched.
var main = mainFile{
	Common: commonPart{Daemonize: true, LogMedia: "stdout", LogLevel: "info", WorkingDir: "/"},
	Paths: pathsPart{
		Config: "/etc/crowdsec/", Data: "/var/lib/crowdsec/data/", Simulation: "/etc/crowdsec/simulation.yaml", Hub: "/var/lib/crowdsec/hub/",
		Index: "/var/lib/crowdsec/hub/.index.json", Notifications: "/etc/crowdsec/notifications/", Plugins: "/usr/lib/crowdsec/plugins/",
	},
	Agent: agentPart{Sources: crowdsec.Sources.Path(), Routines: 1},
	// Without a branch, cscli would ask the makers of CrowdSec which one is right.
	Tool:     toolPart{Output: "human", HubBranch: "master"},
	Database: databasePart{LogLevel: "info", Type: "sqlite", Path: "/var/lib/crowdsec/data/crowdsec.db", WAL: true, Flush: flushPart{Items: 5000, Age: "7d"}},
	Plugins:  pluginsPart{User: "nobody", Group: "nogroup"},
	API: apiPart{
		Client: clientPart{Credentials: "/etc/crowdsec/local_api_credentials.yaml"},
		Server: serverPart{
			// It logs each request, and the gateway asks every few seconds.
			LogLevel: "warning", Listen: localAPI, Profiles: crowdsec.Profiles.Path(), Console: "/etc/crowdsec/console.yaml",
			Central: onlinePart{Credentials: "/etc/crowdsec/online_api_credentials.yaml"}, Trusted: []string{"127.0.0.1"},
		},
	},
}

// The types of the gateway's own logs.
const (
	wafType  = "gateway-waf"
	dropType = "gateway-drops"
)

// sources lists the logs to read. Daemons log to the journal or to files, never to both, or each line would count twice. The journal's
// own field for the sender cannot be forged by a local program.
func (c Config) sources() []any {
	var list []any
	add := func(on bool, unit, file string) {
		switch {
		case !on:
		case c.Journal:
			list = append(list, source{Source: "journalctl", Journal: []string{"_SYSTEMD_UNIT=" + unit}, Labels: label{"syslog"}})
		default:
			list = append(list, source{Source: "file", Filenames: []string{file}, Watch: true, Labels: label{"syslog"}})
		}
	}
	own := func(on bool, file, kind string) {
		if on {
			list = append(list, source{Source: "file", Filenames: []string{file}, Watch: true, Labels: label{kind}})
		}
	}
	s := c.Settings.Sources
	add(s.SSH, crowdsec.SSHService, authFile)
	add(s.HAProxy, proxyService, proxyFile)
	own(s.WAF, wafFile, wafType)
	own(s.PacketFilter, dropFile, dropType)
	if len(list) == 0 {
		// CrowdSec exits without a source. It then reads a file that contains nothing about attacks.
		list = append(list, source{Source: "file", Filenames: []string{dropFile}, Watch: true, Labels: label{"syslog"}})
	}
	return list
}

// parsers read the gateway's own logs, and those that the parsers of CrowdSec's hub do not: in Debian 13, OpenSSH has another name for
// the process that logs failed logins.
var parsers = []any{
	parser{
		Name: "gateway/ssh-sessions", Description: "failed logins of newer versions of sshd",
		Filter: "evt.Parsed.program == 'sshd-session'", OnSuccess: "continue",
		Statics: []static{{Parsed: "program", Value: "sshd"}},
	},
	parser{
		// Scenarios may look at what people type into forms, but it must not be in alerts. Behind a trusted proxy, the visitor is the one
		// found by the web application firewall.
		Name: "gateway/proxy-logs", Description: "requests that the reverse proxy logs",
		Filter: "evt.Parsed.program == 'haproxy'", OnSuccess: "next_stage",
		Grok: &grok{
			Pattern: `^%{IP:client_ip}:%{INT} \[%{DATA}\] %{NOTSPACE} %{NOTSPACE} %{NOTSPACE} %{INT:http_status} %{NOTSPACE} %{NOTSPACE} %{NOTSPACE} %{NOTSPACE} %{NOTSPACE} %{NOTSPACE} (?:\{[^}]*\} )?"(?:<BADREQ>|%{WORD:verb} (?:https?://[^/ "]*)?%{DATA:request}(?:\?%{DATA:http_args})?(?: HTTP/%{NUMBER:http_version})?)"(?: %{NOTSPACE} %{NOTSPACE} %{NOTSPACE} (?:-|%{IP:visitor_ip}))?`,
			ApplyOn: "message",
		},
		Statics: []static{
			{Meta: "log_type", Value: "http_access-log"}, {Meta: "service", Value: "http"}, {Meta: "source_ip", Expression: "evt.Parsed.visitor_ip != '' ? evt.Parsed.visitor_ip : evt.Parsed.client_ip"},
			{Meta: "http_status", Expression: "evt.Parsed.http_status"}, {Meta: "http_path", Expression: "evt.Parsed.request"}, {Meta: "http_verb", Expression: "evt.Parsed.verb"},
		},
	},
	parser{
		Name: "gateway/waf-logs", Description: "requests that the web application firewall found fault with",
		Filter: "evt.Parsed.program == '" + wafType + "'", OnSuccess: "next_stage",
		Statics: []static{
			{Meta: "log_type", Value: "waf_block"}, {Meta: "service", Value: "http"}, extract("source_ip", "client"), extract("action", "action"),
			extract("request_id", "id"), extract("domain", "domain"), extract("rule", "rule"), {Target: "evt.StrTime", Expression: field("time")},
		},
	},
	parser{
		Name: "gateway/drop-logs", Description: "packets that the packet filter dropped",
		Filter: "evt.Parsed.program == '" + dropType + "'", OnSuccess: "next_stage",
		Statics: []static{
			{Meta: "log_type", Value: "packet_drop"}, {Meta: "service", Value: "packet-filter"}, extract("source_ip", "source"), extract("destination", "destination"),
			{Target: "evt.StrTime", Expression: field("time")},
		},
	},
}

// field returns the expression for a field of a JSON line.
func field(name string) string { return fmt.Sprintf(`JsonExtract(evt.Parsed.message, "%s")`, name) }

func extract(meta, name string) static { return static{Meta: meta, Expression: field(name)} }

// scenarios define attacks in the gateway's own logs. A request counts once, however many rules it broke, and retries on one port are not
// a scan.
var scenarios = []any{
	scenario{
		Type: "leaky", Name: "gateway/waf-blocks", Description: "several requests that the web application firewall blocked",
		Filter: "evt.Meta.log_type == 'waf_block' && evt.Meta.action == 'blocked'", GroupBy: "evt.Meta.source_ip", Distinct: "evt.Meta.request_id",
		Capacity: 4, LeakSpeed: "30s", Blackhole: "1m", Labels: scenarioLabels{Service: "http", Type: "waf", Remediation: true},
	},
	scenario{
		Type: "leaky", Name: "gateway/port-scan", Description: "packets to many ports that are closed",
		Filter: "evt.Meta.log_type == 'packet_drop'", GroupBy: "evt.Meta.source_ip", Distinct: "evt.Meta.destination",
		Capacity: 15, LeakSpeed: "5s", Blackhole: "1m", Labels: scenarioLabels{Service: "packet-filter", Type: "scan", Remediation: true},
	},
}

// Render renders the configuration into CrowdSec's files.
func Render(c Config) ([]host.File, error) {
	var always []netip.Prefix
	for _, n := range slices.Concat(c.Always, c.Own) {
		always = append(always, n.Netip())
	}
	never := []string{}
	for _, n := range sorted(always) {
		never = append(never, n.String())
	}
	for _, a := range c.Settings.AllowList {
		never = append(never, a.CIDR.String())
	}
	var files []host.File
	for _, f := range []struct {
		place     host.Place
		documents []any
	}{
		{crowdsec.Config, []any{main}},
		{crowdsec.Sources, c.sources()},
		{crowdsec.Profiles, []any{profile{
			Name: "gateway_ban", Filters: []string{`Alert.Remediation == true && Alert.GetScope() == "Ip"`},
			Decisions: []sentence{{Type: "ban", Duration: c.Settings.BanDuration}}, OnSuccess: "break",
		}}},
		{crowdsec.Parsers, parsers},
		{crowdsec.AllowList, []any{allowList{
			Name: "gateway/allow-list", Description: "who is never banned", Filter: "true", Whitelist: whitelist{Reason: "on the gateway's allow-list", CIDR: never},
		}}},
		{crowdsec.Scenarios, scenarios},
	} {
		content, err := conf.YAML(f.documents...)
		if err != nil {
			return nil, err
		}
		files = append(files, host.File{Place: f.place, Content: content})
	}
	return files, nil
}

// updateEvery is how often the bouncer asks for decisions; see watchEvery.
const updateEvery = "1s"

// RenderBouncer renders the configuration into the bouncer's file.
func RenderBouncer(c BouncerConfig) ([]host.File, error) {
	content, err := conf.YAML(bouncerFile{
		Mode: "nftables", PIDFolder: "/run/", Update: updateEvery, Daemonize: true, LogMode: "stdout", LogLevel: "info",
		URL: "http://" + localAPI + "/", Key: c.Key, Action: "DROP", Supported: []string{"ban"},
		IPv4: crowdsec.Set4, IPv6: crowdsec.Set6,
		Nftables: nftablesPart{
			IPv4: tablePart{Enabled: true, Table: crowdsec.Table4, Chain: crowdsec.Chain4},
			IPv6: tablePart{Enabled: true, Table: crowdsec.Table6, Chain: crowdsec.Chain6},
		},
	})
	return []host.File{{Place: crowdsec.BouncerConfig, Content: content, Redact: redact}}, err
}

var keyLine = regexp.MustCompile(`(?m)^( *"api_key": ).*$`)

// redact hides the key.
func redact(content []byte) []byte {
	return keyLine.ReplaceAll(content, []byte(`${1}"<redacted>",`))
}
