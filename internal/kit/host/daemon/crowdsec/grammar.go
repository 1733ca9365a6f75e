package crowdsec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon/grammar"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
)

// values maps the path of each permitted field to its permitted values.
type values map[string]*regexp.Regexp

var (
	exactly  = grammar.Exactly
	anything = regexp.MustCompile(``)
	span     = regexp.MustCompile(`^[0-9]+[smh]$`)
	network  = regexp.MustCompile(`^[0-9a-f.:]+(?:/[0-9]+)?$`)
	own      = regexp.MustCompile(`^gateway/[a-z-]+$`)
)

// CrowdSec's configuration decides where it keeps its data, which programs it starts and which files it reads. The helper's callers
// must not choose any of that.
var (
	configForm = values{
		"common.daemonize": exactly("true"), "common.log_media": exactly("stdout"), "common.log_level": exactly("info", "warning"), "common.working_dir": exactly("/"),
		"config_paths.config_dir": exactly("/etc/crowdsec/"), "config_paths.data_dir": exactly("/var/lib/crowdsec/data/"),
		"config_paths.simulation_path": exactly("/etc/crowdsec/simulation.yaml"), "config_paths.hub_dir": exactly("/var/lib/crowdsec/hub/"),
		"config_paths.index_path": exactly("/var/lib/crowdsec/hub/.index.json"), "config_paths.notification_dir": exactly("/etc/crowdsec/notifications/"),
		"config_paths.plugin_dir":           exactly("/usr/lib/crowdsec/plugins/"),
		"crowdsec_service.acquisition_path": exactly(sourcesPath), "crowdsec_service.parser_routines": exactly("1"),
		"cscli.output": exactly("human"), "cscli.hub_branch": exactly("master"),
		"db_config.log_level": exactly("info", "warning"), "db_config.type": exactly("sqlite"), "db_config.db_path": exactly("/var/lib/crowdsec/data/crowdsec.db"),
		"db_config.use_wal": exactly("true"), "db_config.flush.max_items": exactly("5000"), "db_config.flush.max_age": exactly("7d"),
		"plugin_config.user": exactly("nobody"), "plugin_config.group": exactly("nogroup"),
		"api.client.insecure_skip_verify": exactly("false"), "api.client.credentials_path": exactly("/etc/crowdsec/local_api_credentials.yaml"),
		"api.server.log_level": exactly("info", "warning"), "api.server.listen_uri": exactly(fmt.Sprintf("127.0.0.1:%d", Port)),
		"api.server.profiles_path": exactly(profilesPath), "api.server.console_path": exactly("/etc/crowdsec/console.yaml"),
		"api.server.online_client.credentials_path": exactly("/etc/crowdsec/online_api_credentials.yaml"), "api.server.trusted_ips[]": exactly("127.0.0.1"),
		"prometheus.enabled": exactly("false"),
	}
	sourcesForm = values{
		"source": exactly("file", "journalctl"), "filenames[]": exactly(AuthLog, ProxyLog, WAFLog, DropLog), "force_inotify": exactly("true"),
		"journalctl_filter[]": exactly("_SYSTEMD_UNIT="+SSHService, "_SYSTEMD_UNIT="+haproxy.Unit.Service()), "labels.type": exactly("syslog", "gateway-waf", "gateway-drops"),
	}
	profilesForm = values{
		"name": regexp.MustCompile(`^gateway_[a-z]+$`), "filters[]": regexp.MustCompile(`^Alert\.Remediation == true && Alert\.GetScope\(\) == "[A-Za-z]+"$`),
		"decisions[].type": exactly("ban"), "decisions[].duration": span, "on_success": exactly("break"),
	}
	// No expression can run a program. A field data would download a list, so it is missing here.
	parsersForm = values{
		"name": own, "description": anything, "filter": anything, "onsuccess": exactly("continue", "next_stage"),
		"grok.pattern": anything, "grok.apply_on": exactly("message"),
		"statics[].meta": anything, "statics[].parsed": anything, "statics[].target": exactly("evt.StrTime"), "statics[].value": anything, "statics[].expression": anything,
	}
	allowListForm = values{"name": own, "description": anything, "filter": exactly("true"), "whitelist.reason": anything, "whitelist.cidr[]": network}
	scenariosForm = values{
		"type": exactly("leaky"), "name": own, "description": anything, "filter": anything, "groupby": anything, "distinct": anything,
		"capacity": regexp.MustCompile(`^[0-9]+$`), "leakspeed": span, "blackhole": span, "labels.service": anything, "labels.type": anything, "labels.remediation": exactly("true"),
	}
	bouncerForm = values{
		"mode": exactly("nftables"), "pid_dir": exactly("/run/"), "update_frequency": span, "daemonize": exactly("true"), "log_mode": exactly("stdout"), "log_level": exactly("info", "warning"),
		"api_url": exactly(fmt.Sprintf("http://127.0.0.1:%d/", Port)), "api_key": regexp.MustCompile(`^[0-9a-zA-Z-]*$`),
		"disable_ipv6": exactly("false"), "deny_action": exactly("DROP"), "deny_log": exactly("false"), "supported_decisions_types[]": exactly("ban"),
		"blacklists_ipv4": exactly("crowdsec-blacklists"), "blacklists_ipv6": exactly("crowdsec6-blacklists"),
		"nftables.ipv4.enabled": exactly("true"), "nftables.ipv4.set-only": exactly("false"), "nftables.ipv4.table": exactly("crowdsec"), "nftables.ipv4.chain": exactly("crowdsec-chain"),
		"nftables.ipv6.enabled": exactly("true"), "nftables.ipv6.set-only": exactly("false"), "nftables.ipv6.table": exactly("crowdsec6"), "nftables.ipv6.chain": exactly("crowdsec6-chain"),
		"prometheus.enabled": exactly("false"),
	}
)

// admit accepts a file whose documents have only these values. They must be JSON, as the gateway writes them: YAML has ways to
// state a field twice.
func (v values) admit(text string) error {
	for i, document := range strings.Split(text, "\n---\n") {
		if i == 0 {
			for strings.HasPrefix(document, "#") {
				_, document, _ = strings.Cut(document, "\n")
			}
		}
		if err := v.document(document); err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
	}
	return nil
}

func (v values) document(text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var root map[string]any
	if err := d.Decode(&root); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("unexpected text after the JSON object")
	}
	if err := once(text); err != nil {
		return err
	}
	return v.walk("", root)
}

// once refuses duplicate fields: a YAML parser may use the other value than Go's.
func once(text string) error {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	var seen []map[string]bool // keys of the enclosing objects; nil for a list
	key := false
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'):
			seen, key = append(seen, map[string]bool{}), true
			continue
		case json.Delim('['):
			seen, key = append(seen, nil), false
			continue
		case json.Delim('}'), json.Delim(']'):
			seen = seen[:len(seen)-1]
			key = len(seen) > 0 && seen[len(seen)-1] != nil
			continue
		}
		if name, ok := token.(string); key && ok {
			if seen[len(seen)-1][name] {
				return fmt.Errorf("duplicate field %q", name)
			}
			seen[len(seen)-1][name] = true
			key = false
			continue
		}
		key = len(seen) > 0 && seen[len(seen)-1] != nil
	}
}

func (v values) walk(path string, at any) error {
	switch at := at.(type) {
	case map[string]any:
		for name, x := range at {
			below := name
			if path != "" {
				below = path + "." + name
			}
			if err := v.walk(below, x); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for _, x := range at {
			if err := v.walk(path+"[]", x); err != nil {
				return err
			}
		}
		return nil
	}
	form, known := v[path]
	if !known {
		return fmt.Errorf("unexpected field %q", path)
	}
	if text := fmt.Sprint(at); !form.MatchString(text) {
		return fmt.Errorf("unexpected value of %s: %s", path, text)
	}
	return nil
}
