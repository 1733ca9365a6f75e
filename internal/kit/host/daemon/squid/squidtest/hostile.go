package squidtest

import (
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
)

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = map[daemon.Place][]string{
	squid.DropIn: {"pid_filename /any", "external_acl_type x %SRC sh -c id>/x /usr/lib/squid/gateway-acl", "access_log stdio:/var/log/squid/../../x", "access_log", "pid_filename /etc/anything", "access_log stdio:/var/log/squid/../../../etc/bar", "acl gateway_x dst \\\n\"/etc/shadow\"",

		"external_acl_type x /bin/sh", "external_acl_type x %DST /bin/sh " + squid.JudgeProgram, "auth_param basic program /bin/sh", "url_rewrite_program /bin/sh",
		"logformat x y", "acl x dst \"/etc/shadow\"", "access_log daemon:/etc/x", "cache_dir ufs /etc 1 1 1", "unlinkd_program /bin/sh", "include /etc/shadow", "logfile_daemon /bin/sh",
		"mime_table /etc/shadow", "cache_effective_user root", "access_log stdio:/var/log/squid/../../../etc/x", "http_port 3128 cert=/etc/shadow",
		"external_acl_type x %SRC bin/sh -c id " + squid.JudgeProgram, "external_acl_type gateway_judge %SRC bin/sh " + squid.JudgeProgram, "#" + strings.Repeat("x", 8190) + "url_rewrite_program /bin/sh",
		"acl gateway_x dst parameters(\"/etc/shadow\")", "pid_filename /etc/x", "coredump_dir /etc", "url_rewrite\\\n_program /bin/sh",
	},
}
