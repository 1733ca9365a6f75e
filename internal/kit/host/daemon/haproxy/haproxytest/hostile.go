package haproxytest

import (
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
)

// Head is the start of the gateway's HAProxy configuration, without which none is accepted.
const Head = "global\n default-path config\n user haproxy\n group haproxy\n"

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = func() map[daemon.Place][]string {
	files := map[daemon.Place][]string{
		haproxy.BlockedPage:     {"%[str(root),map_str(/etc/shadow)]", "%%%[env(HOME)]", "%[unique-id", "%{+Q}[str(root),map_str(/etc/shadow)]", "%ci"},
		haproxy.CertificateList: {"/etc/shadow", "certificates/default.pem\n/etc/shadow", "../../shadow", "/etc/ssl/private/x.pem x.example", "certificates/../../x.pem", "certificates/default.pem [ca-file /etc/shadow] x.example", "@1"},
		haproxy.Inspection: {
			"[waf]\nspoe-agent x\n lua-load x", "[waf]\nspoe-message x\n args a=path,map(/etc/shadow)", "[waf]\nspoe-agent x\n register-var-names x", "[waf]\nglobal", "[other]",
			"[waf]\nspoe-message x\n acl a src -f /etc/shadow", "[waf]\nspoe-agent x\n log stdout",
		},
	}
	for _, text := range afterHead {
		files[haproxy.Config] = append(files[haproxy.Config], Head+text)
	}
	files[haproxy.Config] = append(files[haproxy.Config], whole...)
	return files
}()

// whole are configurations that do not begin with Head.
var whole = []string{
	"global\n mode http",
	// HAProxy stays root, and can reach root's sockets.
	"global\n default-path config\nbackend gateway_api\n mode tcp\n server s unix@/run/dbus/system_bus_socket", "global\n default-path config\n user root\n group root\nbackend gateway_api\n mode tcp\n server s 192.0.2.1:80",
	"global\n default-path config\nbackend gateway_api\n user haproxy\n group haproxy",
	// File names are relative to the working directory of HAProxy.
	"global\n user haproxy\n group haproxy\nfrontend gateway_http\n http-request return status 200 content-type text/plain lf-file etc/shadow",
	"global\n user haproxy\n group haproxy\nfrontend gateway_http\n http-request set-var(txn.x) path,map_str(etc/shadow)",
	"global\n user haproxy\n group haproxy\nfrontend gateway_http\n http-request return status 200 content-type text/plain lf-file pages/blocked.html\nglobal\n default-path config",
	"global\n user haproxy\n group haproxy\nfrontend gateway_http\n http-request set-var(txn.x) path,map_str(maps/hosts.map)",
	"global\n user haproxy\n group haproxy\n default-path origin /etc\nfrontend gateway_http\n http-request return status 200 content-type text/plain lf-file shadow",
	Head + "frontend gateway_http\n filter spoe engine waf config spoe.cfg\nfrontend gateway_https\n http-request return status 503 content-type text/html file pages/maintenance.html",
}

// afterHead are configurations that follow Head.
var afterHead = []string{
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

	// Conditions that read a file, also after a header.
	"frontend gateway_http\n http-request set-header X-A b if { hdr(x) -f /etc/shadow }", "frontend gateway_http\n http-request set-header X-A b if { req.hdr(x) -f /etc/shadow }", "frontend gateway_http\n http-request set-header X-A b unless { req.hdr(x) -f maps/hosts.map }",
	"frontend gateway_http\n http-request del-header X-A if { req.hdr(x) -f /etc/shadow }", "frontend gateway_http\n http-request set-header -f /etc/shadow", "frontend gateway_http\n http-request add-header X-A -f /etc/shadow",
	"frontend gateway_http\n http-request set-header X-A %[path,map_str(/etc/shadow)]", "frontend gateway_http\n use_backend %[var(txn.backend)] if { req.hdr(x) -f /etc/shadow }",
	// Files other than the gateway's.
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
	// Sockets and files of a server, a listener or a log.
	"backend gateway_api\n mode tcp\n server s unix@/run/dbus/system_bus_socket", "backend gateway_api\n server s 192.0.2.1:80 check addr /run/dbus/system_bus_socket", "backend gateway_api\n server s 192.0.2.1:80 check addr 192.0.2.2", "backend gateway_api\n server s 192.0.2.1:80 check port 22", "backend gateway_api\n server s 192.0.2.1:80 source 192.0.2.2",
	"backend gateway_api\n server s 192.0.2.1:80 socks4 192.0.2.2:1080", "backend gateway_api\n server s 192.0.2.1:80 agent-check agent-addr /run/x", "backend gateway_api\n server s 192.0.2.1:80 namespace x", "frontend gateway_http\n bind /etc/passwd", "backend gateway_api\n http-check connect unix@/run/x", "backend gateway_api\n http-check send meth GET uri / ver HTTP/1.1 hdr Host %[env(HOME)] hdr Connection close",
	"backend gateway_api\n stick-table type binary len 8 size 100k expire 1s store http_req_rate(1s) write-to x", "frontend gateway_http\n user haproxy",
}
