package crowdsectest

import (
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
)

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = map[daemon.Place][]string{
	crowdsec.Config: {
		`{"config_paths": {"plugin_dir": "/tmp/"}}`, `{"config_paths": {"notification_dir": "/tmp/"}}`, `{"db_config": {"db_path": "/etc/shadow"}}`, `{"db_config": {"type": "mysql"}}`,
		`{"api": {"server": {"listen_uri": "0.0.0.0:8080"}}}`, `{"api": {"server": {"profiles_path": "/tmp/x"}}}`, `{"plugin_config": {"user": "root"}}`, `{"common": {"pid_dir": "/etc"}}`,
		`{"common": {"log_media": "file"}}`, "common:\n  log_media: stdout", `{"common": {"log_level": "info"}, "common": {"log_level": "info"}}`, `{} {"common": {"log_media": "file"}}`, "# x",
	},
	crowdsec.Sources: {
		`{"source": "file", "filenames": ["/etc/shadow"]}`, `{"source": "journalctl", "journalctl_filter": ["--file=/etc/shadow"]}`, `{"source": "docker"}`, `{"filename": "/etc/shadow"}`,
		"{\"source\": \"file\"}\n---\n{\"source\": \"cloudwatch\"}",
	},
	crowdsec.Profiles:      {`{"name": "gateway_ban", "notifications": ["x"]}`, `{"decisions": [{"type": "ban", "duration": "1h; x"}]}`, `{"filters": ["true"]}`},
	crowdsec.Parsers:       {`{"name": "gateway/x", "data": [{"source_url": "http://192.0.2.1/x", "dest_file": "../../x"}]}`, `{"name": "crowdsecurity/sshd-logs"}`},
	crowdsec.Scenarios:     {`{"type": "leaky", "name": "gateway/x", "data": [{"source_url": "http://192.0.2.1/x"}]}`, `{"type": "trigger"}`, `{"labels": {"remediation": false}}`},
	crowdsec.AllowList:     {`{"whitelist": {"expression": ["true"]}}`, `{"filter": "false"}`, `{"whitelist": {"cidr": ["x"]}}`},
	crowdsec.BouncerConfig: {`{"mode": "iptables"}`, `{"api_url": "http://192.0.2.1/"}`, `{"deny_action": "ACCEPT"}`, `{"nftables": {"ipv4": {"table": "gateway"}}}`, `{"log_dir": "/etc"}`, `{"pid_dir": "/etc/"}`},
}
