package guard_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/helper/guard"
)

// byPath are the places by where they are.
var byPath = func() map[string]host.Place {
	m := map[string]host.Place{}
	for _, p := range []host.Place{
		host.ChronyMain, host.ChronyDropIn, host.UnboundMain, host.UnboundDropIn, host.SquidMain, host.SquidDropIn, host.KeaConfig,
		host.RadiusConfig, host.RadiusClients, host.RadiusUsers, host.ProxyConfig, host.ProxyInspection, host.ProxyCertificateList, host.ProxyManagementList, host.PacketFilterTable,
		host.DetectionConfig, host.DetectionSources, host.DetectionProfiles, host.DetectionParsers, host.DetectionAllowList, host.DetectionScenarios, host.VRRPConfig,
	} {
		m[p.Path()] = p
	}
	return m
}()

// What the rooms render is admitted.
func TestRenderedFilesAreAdmitted(t *testing.T) {
	golden, err := filepath.Glob("../../../../*/testdata/render/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[host.Place]bool{}
	for _, path := range golden {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			place, ok := byPath[f.Name]
			if !ok {
				continue
			}
			seen[place] = true
			if err := guard.Admit(host.File{Place: place, Content: f.Data}); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	blocked, err := os.ReadFile("../../../../proxy/blocked.html")
	if err == nil {
		err = guard.Admit(host.File{Place: host.ProxyBlockedPage, Content: blocked})
	}
	if err != nil {
		t.Error(err)
	}
	for path, place := range byPath {
		if !seen[place] && place != host.PacketFilterTable { // whose text is in the tests of its printer

			t.Errorf("no golden file has %s", path)
		}
	}
}

// What would run, load or read something is refused, however it is written.
func TestHostileFilesAreRefused(t *testing.T) {
	for place, texts := range map[host.Place][]string{
		host.ProxyConfig: {
			"global\n lua-load /tmp/x.lua", "global\n lua-load-per-thread x", `global` + "\n" + ` "lua-load" x`, "global\n lua\\-load x", "global\n 'lua'-load x",
			"global\n external-check", "global\n insecure-fork-wanted", "backend x\n option external-check", "backend x\n external-check command /bin/sh",
			"program x\n command /bin/sh", "global\n ssl-engine x", "global\n ssl-provider x", "global\n chroot /", "global\n uid 0",
			"frontend x\n http-request lua.x", "frontend x\n http-request use-service lua.x", "frontend x\n http-request return file /etc/shadow",
			"frontend x\n http-request return lf-file ../../etc/shadow", "backend x\n errorfile 503 /etc/shadow", "frontend x\n bind :443 ssl crt /etc/ssl/private/x.pem",
			"frontend x\n acl a src -f /etc/shadow", "frontend x\n http-request set-var(txn.x) path,map(/etc/shadow)", "frontend x\n http-request set-var(txn.x) path,map_str(../../shadow)",
			"frontend x\n http-request return file \"$HOME/x\"", ".if 1\n lua-load x\n.endif", "global\n no lua-load x",
			"frontend x\n http-request return status 200 content-type text/plain \"$A\" /etc/shadow", "frontend x\n http-request set-header x \"${A}\"", "global\n setenv A file", "global\n setenv RES_OPTIONS x",
			"global\n default-path origin /etc", "global\n default-path parent", "global\n user root", "global\n group root", "global\n no user haproxy x", "listen x\n bind :80", "ring x", "peers x",
			"backend x\n server s unix@/run/dbus/system_bus_socket", "backend x\n server s /run/dbus/system_bus_socket", "backend x\n server s abns@x", "backend x\n server s fd@3", "backend x\n server s unix@/run/gateway/helper.sock",
			"backend x\n server 's 192.0.2.1:80' /run/dbus/system_bus_socket", "backend x\n server s 192.0.2.1:80 ssl crt /etc/ssl/private/x.pem", "backend x\n server s 192.0.2.1:80 ssl ca-file /etc/shadow",
			"backend x\n server s 192.0.2.1:80 check addr unix@/run/x", "global\n stats socket /etc/passwd", "global\n stats socket /run/haproxy/admin.sock mode 666 level admin", "frontend x\n bind unix@/run/x",
			"frontend x\n bind :443 ssl crt-list /etc/x alpn h2", "global\n log /run/x local0", "global\n log /dev/log local0", "frontend x\n bind :80 user root", "frontend x\n mode tcp\\",
			"frontend x\n http-request set-header x %{+Q}[str(root),map_str(/etc/shadow)]", "frontend x\n filter spoe engine waf config /tmp/x", "frontend x\n filter spoe engine waf config ../spoe.cfg", "frontend x\n filter trace name x",
		},
		host.ProxyBlockedPage:     {"%[str(root),map_str(/etc/shadow)]", "%%%[env(HOME)]", "%[unique-id", "%{+Q}[str(root),map_str(/etc/shadow)]", "%ci"},
		host.ProxyCertificateList: {"/etc/ssl/private/x.pem x.example", "certificates/../../x.pem", "certificates/default.pem [ca-file /etc/shadow] x.example", "@1"},
		host.ProxyInspection: {
			"[waf]\nspoe-agent x\n lua-load x", "[waf]\nspoe-message x\n args a=path,map(/etc/shadow)", "[waf]\nspoe-agent x\n register-var-names x", "[waf]\nglobal", "[other]",
			"[waf]\nspoe-message x\n acl a src -f /etc/shadow", "[waf]\nspoe-agent x\n log stdout",
		},
		host.SquidDropIn: {
			"external_acl_type x /bin/sh", "external_acl_type x %DST /bin/sh " + host.JudgeProgram, "auth_param basic program /bin/sh", "url_rewrite_program /bin/sh",
			"logformat x y", "acl x dst \"/etc/shadow\"", "access_log daemon:/etc/x", "cache_dir ufs /etc 1 1 1", "unlinkd_program /bin/sh", "include /etc/shadow", "logfile_daemon /bin/sh",
			"mime_table /etc/shadow", "cache_effective_user root", "access_log stdio:/var/log/squid/../../../etc/x", "http_port 3128 cert=/etc/shadow",
			"external_acl_type x %SRC bin/sh -c id " + host.JudgeProgram, "external_acl_type gateway_judge %SRC bin/sh " + host.JudgeProgram, "#" + strings.Repeat("x", 8190) + "url_rewrite_program /bin/sh",
			"acl gateway_x dst parameters(\"/etc/shadow\")", "pid_filename /etc/x", "coredump_dir /etc", "url_rewrite\\\n_program /bin/sh",
		},
		host.UnboundDropIn: {
			"python:\n python-script: /tmp/x.py", "dynlib:\n dynlib-file: /tmp/x.so", "server:\n module-config: \"python validator iterator\"", "include: /etc/shadow",
			"include-toplevel: \"/tmp/*.conf\"", "server:\n logfile: /etc/x", "server:\n trust-anchor-file: /etc/shadow", "server:\n auto-trust-anchor-file: /etc/x",
			"server: hide-identity: yes include: \"/etc/shadow\"", "server:\n hide-identity: yes include: \"/etc/shadow\"", "server:\n name: \"x\"include: \"/etc/shadow\"", "server:\n hide-version: yes python: python-script: \"/x.py\"",
			"server:\n username: \"\"", "server:\n username: root", "server:\n local-zone: \"x.\" static include: \"/etc/shadow\"", "server:\n local-data: \"x\\\\\" include: \"/etc/shadow\"", "server:\n directory: \"/tmp\"",
			"remote-control:\n control-interface: 0.0.0.0", "auth-zone:\n zonefile: /etc/x", "server:\n pidfile: /etc/x", "dnstap:\n",
		},
		host.ChronyDropIn:  {"mailonchange root@localhost 0.5", "include /etc/shadow", "confdir /tmp", "logdir /etc", "dumpdir /etc", "pidfile /etc/x", "keyfile /etc/shadow", "user root", "driftfile /etc/x", "server a.example key 1", "#" + strings.Repeat("x", 2047) + "mailonchange root 1"},
		host.RadiusConfig:  {"modules {\n per\\\nl {\n file\\\nname = /tmp/x.pl\n }\n}", "$-INCLUDE /etc/shadow", "$include /etc/shadow", "$INCLUDE gateway-clients.conf /etc/shadow", "mschap {\n ntlm_auth = \"/bin/id\"\n}", "filename=/etc/x", "pap { perl }", "modules { pap {", "modules {\n exec {\n }\n}", "modules {\n perl {\n }\n}", "modules {\n python3 {\n }\n}", "authorize {\n update reply {\n Reply-Message := `id`\n }\n}", "authorize {\n update reply {\n Reply-Message := \"%{exec:/bin/id}\"\n }\n}", "$INCLUDE /etc/shadow", "libdir = /tmp", "modules {\n rlm_exec = x\n}", "modules {\n detail {\n filename = /etc/x\n }\n}", "modules {\n linelog {\n filename = /etc/x\n }\n}"},
		host.RadiusClients: {"client gateway {\n secret = \"%{exec:/bin/id}\"\n}", "client x {\n}", "client gateway {\n secret = 'x' perl\n}", "$INCLUDE /etc/shadow", "modules {", "client gateway {\n secret = 'x\\'\n}", "client gateway {\n virtual_server = x\n}"},
		host.RadiusUsers:   {"bob Cleartext-Password := x\\\n$INCLUDE /etc/shadow", "bob exec-program = '/bin/id'", "bob Cleartext-Password := `id`", "$INCLUDE /etc/shadow", "bob Exec-Program = \"/bin/id\"", "bob Cleartext-Password := \"%{exec:/bin/id}\""},
		host.KeaConfig: {`{"Dhcp4": {"hooks-libraries": [{"library": "/tmp/x.so"}]}}`, `{"Dhcp4": {"hooks-libraries": [{"library": "libdhcp_run_script.so"}]}}`, `{"Dhcp4": <?include "/etc/shadow"?>}`, `{"Dhcp4": {"control-socket": {"socket-name": "/tmp/x"}}}`, `{"Dhcp4": {"lease-database": {"type": "memfile", "name": "/etc/x"}}}`, `{"Dhcp4": {"lease-database": {"type": "mysql", "name": "x"}}}`,
			`{"Dhcp4": {"hooks-libraries": [{"library": "/tmp/x.so"}], "hooks-libraries": []}}`, `{"Dhcp4": {"loggers": [{"name": "kea-dhcp4", "output_options": [{"output": "/etc/x"}]}]}}`, `{"Dhcp4": {"hosts-database": {"type": "mysql"}}}`, `{"Dhcp4": {}, "Dhcp6": {}}`, `{"Dhcp4": {"control-socket": {"socket-type": "http", "socket-name": "` + host.LeaseServer().Control + `"}}}`},
		host.DetectionConfig: {
			`{"config_paths": {"plugin_dir": "/tmp/"}}`, `{"config_paths": {"notification_dir": "/tmp/"}}`, `{"db_config": {"db_path": "/etc/shadow"}}`, `{"db_config": {"type": "mysql"}}`,
			`{"api": {"server": {"listen_uri": "0.0.0.0:8080"}}}`, `{"api": {"server": {"profiles_path": "/tmp/x"}}}`, `{"plugin_config": {"user": "root"}}`, `{"common": {"pid_dir": "/etc"}}`,
			`{"common": {"log_media": "file"}}`, "common:\n  log_media: stdout", `{"common": {"log_level": "info"}, "common": {"log_level": "info"}}`, `{} {"common": {"log_media": "file"}}`, "# x",
		},
		host.DetectionSources: {
			`{"source": "file", "filenames": ["/etc/shadow"]}`, `{"source": "journalctl", "journalctl_filter": ["--file=/etc/shadow"]}`, `{"source": "docker"}`, `{"filename": "/etc/shadow"}`,
			"{\"source\": \"file\"}\n---\n{\"source\": \"cloudwatch\"}",
		},
		host.DetectionProfiles:  {`{"name": "gateway_ban", "notifications": ["x"]}`, `{"decisions": [{"type": "ban", "duration": "1h; x"}]}`, `{"filters": ["true"]}`},
		host.DetectionParsers:   {`{"name": "gateway/x", "data": [{"source_url": "http://192.0.2.1/x", "dest_file": "../../x"}]}`, `{"name": "crowdsecurity/sshd-logs"}`},
		host.DetectionScenarios: {`{"type": "leaky", "name": "gateway/x", "data": [{"source_url": "http://192.0.2.1/x"}]}`, `{"type": "trigger"}`, `{"labels": {"remediation": false}}`},
		host.DetectionAllowList: {`{"whitelist": {"expression": ["true"]}}`, `{"filter": "false"}`, `{"whitelist": {"cidr": ["x"]}}`},
		host.DetectionBouncer:   {`{"mode": "iptables"}`, `{"api_url": "http://192.0.2.1/"}`, `{"deny_action": "ACCEPT"}`, `{"nftables": {"ipv4": {"table": "gateway"}}}`, `{"log_dir": "/etc"}`, `{"pid_dir": "/etc/"}`},
		host.VRRPConfig: {
			"include /etc/shadow", "  include /etc/shadow", "notify /bin/id", "notify_master \"/bin/id\"", "script \"/bin/id\"", "script " + host.VRRPProbe + " x", "script_user nobody", "vrrp_notify_fifo /etc/x",
			"vrrp_notify_fifo " + host.VRRPStates + " root", "notify_fifo_script /bin/id", "file /etc/shadow", "vrrp_script x {", "virtual_server 1.2.3.4 80 {", "$X=1", "@a priority 1", "! x", "} script x", "interface eth0 }",
			"priority 1 # x", "10.0.0.1/24 dev eth0 label x", "10.0.0.1/24 dev eth0\v", "include weight -253", "smtp_alert", "router_id gateway }", "net_namespace x",
			"#" + strings.Repeat("x", 1022) + "script \"/bin/id\"", "router_id \\\ngateway",
		},
		host.VRRPDrain: {"", "2", "0\n1", "-253"},
		host.PacketFilterTable: {"include \"/etc/shadow\"", "table inet x { }; include \"/etc/shadow\"", "\tinclude \"/etc/shadow\"",
			"table inet gateway {\n comment \"x\n\"\n}\n" + "include \"/etc/shadow\"", "comment \"x\n\" ; include \"/etc/shadow\"", "inclu\\\nde \"/etc/shadow\""},
	} {
		for _, text := range texts {
			if place == host.ProxyConfig {
				text = "global\n user haproxy\n group haproxy\n" + text // without these none is admitted
			}
			if guard.Admit(host.File{Place: place, Content: []byte(text + "\n")}) == nil {
				t.Errorf("%s: admitted:\n%s", place, text)
			}
		}
	}
	if guard.Admit(host.File{Place: host.ProxyConfig, Content: []byte("global\n mode http\n")}) == nil {
		t.Error("an HAProxy with the rights of root was admitted")
	}
	if guard.Admit(host.File{Place: host.ProxyMaintenancePage, Content: slices.Repeat([]byte("x"), 65<<20)}) == nil {
		t.Error("a file without end was admitted")
	}
	if err := guard.Admit(host.File{Place: host.ProxyHosts, Content: []byte(strings.Repeat("a b\n", 10))}); err != nil {
		t.Error(err)
	}
}
