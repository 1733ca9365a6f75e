// Package hostile has configurations that would give an attacker more than the gateway has: files that a daemon would run,
// load, read or write as root. None of them may be admitted.
package hostile

import (
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

// Head is how the gateway's configuration of HAProxy begins. Without it, none is admitted.
const Head = "global\n default-path config\n user haproxy\n group haproxy\n"

// Files are all of them.
func Files() []host.File {
	var files []host.File
	for _, text := range proxy {
		files = append(files, host.File{Place: host.ProxyConfig, Content: []byte(Head + text + "\n")})
	}
	for _, text := range wholeProxy {
		files = append(files, host.File{Place: host.ProxyConfig, Content: []byte(text + "\n")})
	}
	for place, texts := range others {
		for _, text := range texts {
			files = append(files, host.File{Place: place, Content: []byte(text + "\n")})
		}
	}
	return files
}

// table is how the gateway's packet filter begins.
const table = "table inet gateway\ndelete table inet gateway\ntable inet gateway {\n"

// wholeProxy are configurations of HAProxy that begin otherwise than the gateway's own.
var wholeProxy = []string{
	"global\n mode http",
	// HAProxy stays root, and reaches root's sockets.
	"global\n default-path config\nbackend gateway_api\n mode tcp\n server s unix@/run/dbus/system_bus_socket", "global\n default-path config\n user root\n group root\nbackend gateway_api\n mode tcp\n server s 192.0.2.1:80",
	"global\n default-path config\nbackend gateway_api\n user haproxy\n group haproxy",
	// Names of files are relative to the folder that it was started in.
	"global\n user haproxy\n group haproxy\nfrontend gateway_http\n http-request return status 200 content-type text/plain lf-file etc/shadow",
	"global\n user haproxy\n group haproxy\nfrontend gateway_http\n http-request set-var(txn.x) path,map_str(etc/shadow)",
	"global\n user haproxy\n group haproxy\nfrontend gateway_http\n http-request return status 200 content-type text/plain lf-file pages/blocked.html\nglobal\n default-path config",
	"global\n user haproxy\n group haproxy\nfrontend gateway_http\n http-request set-var(txn.x) path,map_str(maps/hosts.map)",
	"global\n user haproxy\n group haproxy\n default-path origin /etc\nfrontend gateway_http\n http-request return status 200 content-type text/plain lf-file shadow",
	Head + "frontend gateway_http\n filter spoe engine waf config spoe.cfg\nfrontend gateway_https\n http-request return status 503 content-type text/html file pages/maintenance.html",
}

// proxy are configurations of HAProxy behind Head.
var proxy = []string{
	"global\n lua-load /tmp/x.lua", "global\n lua-load-per-thread x", `global` + "\n" + ` "lua-load" x`, "global\n lua\\-load x", "global\n 'lua'-load x",
	"global\n external-check", "global\n insecure-fork-wanted", "backend gateway_api\n option external-check", "backend gateway_api\n external-check command /bin/sh",
	"program x\n command /bin/sh", "global\n ssl-engine x", "global\n ssl-provider x", "global\n chroot /", "global\n uid 0",
	"frontend gateway_http\n http-request lua.x", "frontend gateway_http\n http-request use-service lua.x", "frontend gateway_http\n http-request return file /etc/shadow",
	"frontend gateway_http\n http-request return lf-file ../../etc/shadow", "backend gateway_api\n errorfile 503 /etc/shadow", "frontend gateway_http\n bind :443 ssl crt /etc/ssl/private/x.pem",
	"frontend gateway_http\n acl a src -f /etc/shadow", "frontend gateway_http\n http-request set-var(txn.x) path,map(/etc/shadow)", "frontend gateway_http\n http-request set-var(txn.x) path,map_str(../../shadow)",
	"frontend gateway_http\n http-request return file \"$HOME/x\"", ".if 1\n lua-load x\n.endif", "global\n no lua-load x",
	"frontend gateway_http\n http-request return status 200 content-type text/plain \"$A\" /etc/shadow", "frontend gateway_http\n http-request set-header x \"${A}\"", "global\n setenv A file", "global\n setenv RES_OPTIONS x",
	"global\n default-path origin /etc", "global\n default-path parent", "global\n user root", "global\n group root", "global\n no user haproxy x", "listen x\n bind :80", "ring x", "peers x",
	"backend gateway_api\n server s unix@/run/dbus/system_bus_socket", "backend gateway_api\n server s /run/dbus/system_bus_socket", "backend gateway_api\n server s abns@x", "backend gateway_api\n server s fd@3", "backend gateway_api\n server s unix@/run/gateway/helper.sock",
	"backend gateway_api\n server 's 192.0.2.1:80' /run/dbus/system_bus_socket", "backend gateway_api\n server s 192.0.2.1:80 ssl crt /etc/ssl/private/x.pem", "backend gateway_api\n server s 192.0.2.1:80 ssl ca-file /etc/shadow",
	"backend gateway_api\n server s 192.0.2.1:80 check addr unix@/run/x", "global\n stats socket /etc/passwd", "global\n stats socket /run/haproxy/admin.sock mode 666 level admin", "frontend gateway_http\n bind unix@/run/x",
	"frontend gateway_http\n bind :443 ssl crt-list /etc/x alpn h2", "global\n log /run/x local0", "global\n log /dev/log local0", "frontend gateway_http\n bind :80 user root", "frontend gateway_http\n mode tcp\\",
	"frontend gateway_http\n http-request set-header x %{+Q}[str(root),map_str(/etc/shadow)]", "frontend gateway_http\n filter spoe engine waf config /tmp/x", "frontend gateway_http\n filter spoe engine waf config ../spoe.cfg", "frontend gateway_http\n filter trace name x",

	// A condition reads a file, behind a header, too.
	"frontend gateway_http\n http-request set-header X-A b if { hdr(x) -f /etc/shadow }", "frontend gateway_http\n http-request set-header X-A b if { req.hdr(x) -f /etc/shadow }", "frontend gateway_http\n http-request set-header X-A b unless { req.hdr(x) -f maps/hosts.map }",
	"frontend gateway_http\n http-request del-header X-A if { req.hdr(x) -f /etc/shadow }", "frontend gateway_http\n http-request set-header -f /etc/shadow", "frontend gateway_http\n http-request add-header X-A -f /etc/shadow",
	"frontend gateway_http\n http-request set-header X-A %[path,map_str(/etc/shadow)]", "frontend gateway_http\n use_backend %[var(txn.backend)] if { req.hdr(x) -f /etc/shadow }",
	// Files by names that are not those of the gateway.
	"frontend gateway_http\n http-request return status 200 content-type text/plain lf-file etc/shadow", "frontend gateway_http\n http-request return status 200 content-type text/plain file certificates/default.pem", "frontend gateway_http\n http-request return status 200 content-type text/plain lf-file pages/maintenance.html",
	"frontend gateway_http\n http-request set-var(txn.x) path,map_str(etc/shadow)", "frontend gateway_http\n http-request set-var(txn.x) path,map_str(certificates/default.pem)", "frontend gateway_http\n http-request set-var(txn.x) path,map_str(maps/../../../shadow)", "frontend gateway_http\n http-request set-var(txn.x) path,map(maps/hosts.map,x)",
	"frontend gateway_http\n http-request set-var(txn.x) path,map_str(maps/hosts.map),map_str(etc/shadow)", "frontend gateway_http\n http-request set-var(txn.x) req.hdr(x),jwt_verify(RS256,/etc/ssl/private/x.pem)", "frontend gateway_http\n http-request set-map(/etc/shadow) a b", "frontend gateway_http\n http-request set-var(txn.x) env(HOME)",
	"global\n default-path origin /etc\nfrontend gateway_http\n http-request return status 200 content-type text/plain lf-file shadow", "frontend gateway_http\n default-path origin /etc", "backend gateway_api\n default-path config",
	// Escapes, quotes and variables.
	"frontend gateway_http\n http-request return status 200 content-type text/plain \\x6cf-file /etc/shadow", "frontend gateway_http\n http-request return status 200 content-type text/plain lf-fil\\x65 /etc/shadow", "frontend gateway_http\n http-request return status 200 content-type text/plain \"lf-fil\\x65\" /etc/shadow",
	"frontend gateway_http\n http-request return status 200 content-type text/plain fi\"le\" /etc/shadow", "frontend gateway_http\n http-request return status 200 content-type text/plain fi'le' /etc/shadow", "frontend gateway_http\n http-request return status 200 content-type text/plain f\\ile /etc/shadow",
	"frontend gateway_http\n http-request set-header X-A b\\x0aif", "frontend gateway_http\n http-request set-header X-A b\\ if", "frontend gateway_http\n http-request set-header X-A b if { req.hdr(x) \\x2df /etc/shadow }", "frontend gateway_http\n http-request set-header X-A b if { req.hdr(x) \"-\"f /etc/shadow }",
	"frontend gateway_http\n http-request set-header X-A b if { req.hdr(x) \\\n -f /etc/shadow }", "frontend gateway_http\n http-request set-header X-A \"b", "frontend gateway_http\n http-request set-header X-A \\x1f", "frontend gateway_http\n http-request set-path /x # y",
	"global\n setenv F -f\nfrontend gateway_http\n acl a src \"$F\" /file", "frontend gateway_http\n acl a src \"$F\" /file", "global\n setenv F -f", "frontend gateway_http\n http-request set-header X-A b if { src \"$F\" /file }", "frontend gateway_http\n http-request set-header X-A b if { src $F /file }",
	// Sockets and files that a server, a listener or a log would reach.
	"backend gateway_api\n mode tcp\n server s unix@/run/dbus/system_bus_socket", "backend gateway_api\n server s 192.0.2.1:80 check addr /run/dbus/system_bus_socket", "backend gateway_api\n server s 192.0.2.1:80 check addr 192.0.2.2", "backend gateway_api\n server s 192.0.2.1:80 check port 22", "backend gateway_api\n server s 192.0.2.1:80 source 192.0.2.2",
	"backend gateway_api\n server s 192.0.2.1:80 socks4 192.0.2.2:1080", "backend gateway_api\n server s 192.0.2.1:80 agent-check agent-addr /run/x", "backend gateway_api\n server s 192.0.2.1:80 namespace x", "frontend gateway_http\n bind /etc/passwd", "backend gateway_api\n http-check connect unix@/run/x", "backend gateway_api\n http-check send meth GET uri / ver HTTP/1.1 hdr Host %[env(HOME)] hdr Connection close",
	"backend gateway_api\n stick-table type binary len 8 size 100k expire 1s store http_req_rate(1s) write-to x", "frontend gateway_http\n user haproxy",
}

// others are files of the other places.
var others = map[host.Place][]string{
	host.ProxyBlockedPage:     {"%[str(root),map_str(/etc/shadow)]", "%%%[env(HOME)]", "%[unique-id", "%{+Q}[str(root),map_str(/etc/shadow)]", "%ci"},
	host.ProxyCertificateList: {"/etc/shadow", "certificates/default.pem\n/etc/shadow", "../../shadow", "/etc/ssl/private/x.pem x.example", "certificates/../../x.pem", "certificates/default.pem [ca-file /etc/shadow] x.example", "@1"},
	host.ProxyInspection: {
		"[waf]\nspoe-agent x\n lua-load x", "[waf]\nspoe-message x\n args a=path,map(/etc/shadow)", "[waf]\nspoe-agent x\n register-var-names x", "[waf]\nglobal", "[other]",
		"[waf]\nspoe-message x\n acl a src -f /etc/shadow", "[waf]\nspoe-agent x\n log stdout",
	},
	host.SquidDropIn: {"pid_filename /any", "external_acl_type x %SRC sh -c id>/x /usr/lib/squid/gateway-acl", "access_log stdio:/var/log/squid/../../x", "access_log", "pid_filename /etc/anything", "access_log stdio:/var/log/squid/../../../etc/bar", "acl gateway_x dst \\\n\"/etc/shadow\"",

		"external_acl_type x /bin/sh", "external_acl_type x %DST /bin/sh " + host.JudgeProgram, "auth_param basic program /bin/sh", "url_rewrite_program /bin/sh",
		"logformat x y", "acl x dst \"/etc/shadow\"", "access_log daemon:/etc/x", "cache_dir ufs /etc 1 1 1", "unlinkd_program /bin/sh", "include /etc/shadow", "logfile_daemon /bin/sh",
		"mime_table /etc/shadow", "cache_effective_user root", "access_log stdio:/var/log/squid/../../../etc/x", "http_port 3128 cert=/etc/shadow",
		"external_acl_type x %SRC bin/sh -c id " + host.JudgeProgram, "external_acl_type gateway_judge %SRC bin/sh " + host.JudgeProgram, "#" + strings.Repeat("x", 8190) + "url_rewrite_program /bin/sh",
		"acl gateway_x dst parameters(\"/etc/shadow\")", "pid_filename /etc/x", "coredump_dir /etc", "url_rewrite\\\n_program /bin/sh",
	},
	host.UnboundDropIn: {"server: hide-version: yes directory: \"/path\" module-config: \"python iterator\" python: python-script: \"/path/x.py\"", "server: hide-version: yes include: \"/file\"",
		"server: username: \"\" directory: \"/var/lib/gateway\" module-config: \"python validator iterator\"", "server: python: python-script: \"/var/lib/gateway/x.py\"",

		"python:\n python-script: /tmp/x.py", "dynlib:\n dynlib-file: /tmp/x.so", "server:\n module-config: \"python validator iterator\"", "include: /etc/shadow",
		"include-toplevel: \"/tmp/*.conf\"", "server:\n logfile: /etc/x", "server:\n trust-anchor-file: /etc/shadow", "server:\n auto-trust-anchor-file: /etc/x",
		"server: hide-identity: yes include: \"/etc/shadow\"", "server:\n hide-identity: yes include: \"/etc/shadow\"", "server:\n name: \"x\"include: \"/etc/shadow\"", "server:\n hide-version: yes python: python-script: \"/x.py\"",
		"server:\n username: \"\"", "server:\n username: root", "server:\n local-zone: \"x.\" static include: \"/etc/shadow\"", "server:\n local-data: \"x\\\\\" include: \"/etc/shadow\"", "server:\n directory: \"/tmp\"",
		"server:\n interface: /run/x", "server:\n num-threads: include:", "server:\n hide-version: \"yes\" include: \"/etc/shadow\"", "forward-zone:\n name: include:", "forward-zone:\n forward-addr: \"/etc/shadow\"", "server:\n local-data: x include: \"/etc/shadow\"",
		"server:\n local-zone: \"x.\" inform", "server:\n access-control: \"::0/0\" allow_snoop",
		"remote-control:\n control-interface: 0.0.0.0", "auth-zone:\n zonefile: /etc/x", "server:\n pidfile: /etc/x", "dnstap:\n",
	},
	host.ChronyDropIn:  {"driftfile /etc/x", "mailonchange root@localhost 0.5", "include /etc/shadow", "confdir /tmp", "logdir /etc", "dumpdir /etc", "pidfile /etc/x", "keyfile /etc/shadow", "user root", "server a.example key 1", "#" + strings.Repeat("x", 2047) + "mailonchange root 1"},
	host.RadiusConfig:  {"modules {\nperl x {\nfilename=/path/x.pl\n}\n}\nauthorize {\nx\n}", "perl x {", "filename=/path/x.pl", "libdir=/path", "libdir = /path # c", "ex\\\nec x {", "$INC\\\nLUDE /etc/shadow", "modules {\n per\\\nl {\n file\\\nname = /tmp/x.pl\n }\n}", "$-INCLUDE /etc/shadow", "$include /etc/shadow", "$INCLUDE gateway-clients.conf /etc/shadow", "mschap {\n ntlm_auth = \"/bin/id\"\n}", "filename=/etc/x", "pap { perl }", "modules { pap {", "modules {\n exec {\n }\n}", "modules {\n perl {\n }\n}", "modules {\n python3 {\n }\n}", "authorize {\n update reply {\n Reply-Message := `id`\n }\n}", "authorize {\n update reply {\n Reply-Message := \"%{exec:/bin/id}\"\n }\n}", "$INCLUDE /etc/shadow", "libdir = /tmp", "modules {\n rlm_exec = x\n}", "modules {\n detail {\n filename = /etc/x\n }\n}", "modules {\n linelog {\n filename = /etc/x\n }\n}"},
	host.RadiusClients: {"client gateway {\n secret = \"%{exec:/bin/id}\"\n}", "client x {\n}", "client gateway {\n secret = 'x' perl\n}", "$INCLUDE /etc/shadow", "modules {", "client gateway {\n secret = 'x\\'\n}", "client gateway {\n virtual_server = x\n}"},
	host.RadiusUsers: {"bob Cleartext-Password := x\\\n$INCLUDE /etc/shadow", "bob exec-program = '/bin/id'", "bob Cleartext-Password := `id`", "$INCLUDE /etc/shadow", "bob Exec-Program = \"/bin/id\"", "bob Cleartext-Password := \"%{exec:/bin/id}\"",
		"bob Cleartext-Password := 'x', Exec-Program := '/bin/id'", "bob Cleartext-Password := 'x'\n\tExec-Program-Wait = '/bin/id'", "bob Cleartext-Password := 'x'\n\tReply-Message := x", "bob Auth-Type := Accept", "bob Auth-Type := System",
		"bob Cleartext-Password := 'x\\n'", "bob Cleartext-Password := 'x", "bob Crypt-Password := 'x'", "+x Cleartext-Password := 'x'",
	},
	host.KeaConfig: {`{"Dhcp4": {"hooks-libraries": [{"library": "/tmp/x.so"}]}}`, `{"Dhcp4": {"hooks-libraries": [{"library": "libdhcp_run_script.so"}]}}`, `{"Dhcp4": <?include "/etc/shadow"?>}`, `{"Dhcp4": {"control-socket": {"socket-name": "/tmp/x"}}}`, `{"Dhcp4": {"lease-database": {"type": "memfile", "name": "/etc/x"}}}`, `{"Dhcp4": {"lease-database": {"type": "mysql", "name": "x"}}}`,
		`{"Dhcp4": {"hooks-libraries": [{"library": "/tmp/x.so"}], "hooks-libraries": []}}`, `{"Dhcp4": {"loggers": [{"name": "kea-dhcp4", "output_options": [{"output": "/etc/x"}]}]}}`, `{"Dhcp4": {"hosts-database": {"type": "mysql"}}}`, `{"Dhcp4": {}, "Dhcp6": {}}`,
		`{"Dhcp4": {"subnet4": [{"id": 1, "user-context": {}}]}}`, `{"Dhcp4": {"subnet4": [{"id": 1, "option-data": [{"name": "boot-file-name", "data": "x"}]}]}}`, `{"Dhcp4": {"subnet4": [{"id": 1, "option-data": [{"name": "routers", "data": "<?include \"/etc/shadow\"?>"}]}]}}`,
		`{"Dhcp4": {"subnet4": [{"id": 1, "reservations": [{"hw-address": "x", "boot-file-name": "x"}]}]}}`, `{"Dhcp4": {"interfaces-config": {"interfaces": ["*"]}}}`, `{"Dhcp4": {"loggers": [{"name": "kea-ctrl-agent"}]}}`, `{"Dhcp4": {"control-socket": {"socket-type": "http", "socket-name": "` + host.LeaseServer().Control + `"}}}`},
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
		"include /etc/shadow", "  include /etc/shadow", "notify /bin/id", "notify_master \"/bin/id\"", "script \"/bin/id\"", "script " + host.VRRPProbe + " x", "script_user daemon", "script_user root", "vrrp_notify_fifo /etc/x",
		"vrrp_notify_fifo " + host.VRRPStates + " root", "notify_fifo_script /bin/id", "file /etc/shadow", "vrrp_script x {", "virtual_server 1.2.3.4 80 {", "$X=1", "@a priority 1", "! x", "} script x", "interface eth0 }",
		"priority 1 # x", "10.0.0.1/24 dev eth0 label x", "10.0.0.1/24 dev eth0\v", "include weight -253", "smtp_alert", "router_id gateway }", "net_namespace x",
		"#" + strings.Repeat("x", 1022) + "script \"/bin/id\"", "router_id \\\ngateway",
		"}", "track_file {\n drain\n}", "vrrp_instance gateway {\n track_file {\n drain\n}", "vrrp_instance gateway {\n track_file {\n drain\n virtual_ipaddress {\n }\n }\n}",
	},
	host.VRRPDrain: {"", "2", "0\n1", "-253"},
	// What is about other tables, or leaves the gateway's own; and what reads files.
	host.PacketFilterTable: {
		"flush ruleset", "table inet x {\n}", "delete table ip crowdsec", table + "}\nflush ruleset", table + "}\ntable ip x {\n}", table + "\tchain input {\n\t accept } } flush ruleset ; table inet x { chain y {\n\t}\n}",
		table + "\tchain input {\n\t accept\n\t} } flush ruleset\n\t}\n}", table + "\tchain input {\n\t tcp dport { 22 # }\n\t}\n}", table + "\tchain input {\n\t accept ; drop\n\t}\n}", table + "\tchain input {\n\t include \"/etc/shadow\"\n\t}\n}",
		table + "\tchain input {\n\t\ttype filter hook input priority filter; policy drop; include \"/etc/shadow\";\n\t}\n}", table + "\tchain input {\n\t define x = 1\n\t}\n}", table + "\tchain x { include \"/etc/shadow\" ; } ; chain input {\n\t}\n}",
		table + "\tset x {\n\t\ttype ipv4_addr; include \"/etc/shadow\"\n\t\tflags interval\n\t}\n}", table + "\tset x {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 1.2.3.4 } ; include \"/etc/shadow\" ; { }\n\t}\n}",
		table + "\tchain input {\n\t\ttype filter hook ingress device eth0 priority filter; policy drop;\n\t}\n}",
		"define a = \"b\n\"; include \"/file\"; define c = \"\n\"", "include \"/etc/shadow\"", "table inet x { }; include \"/etc/shadow\"", "\tinclude \"/etc/shadow\"",
		"table inet gateway {\n comment \"x\n\"\n}\n" + "include \"/etc/shadow\"", "comment \"x\n\" ; include \"/etc/shadow\"", "inclu\\\nde \"/etc/shadow\"",
	},
}
