package unboundtest

import (
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
)

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = map[daemon.Place][]string{
	unbound.DropIn: {"server: hide-version: yes directory: \"/path\" module-config: \"python iterator\" python: python-script: \"/path/x.py\"", "server: hide-version: yes include: \"/file\"",
		"server: username: \"\" directory: \"/var/lib/gateway\" module-config: \"python validator iterator\"", "server: python: python-script: \"/var/lib/gateway/x.py\"",

		"python:\n python-script: /tmp/x.py", "dynlib:\n dynlib-file: /tmp/x.so", "server:\n module-config: \"python validator iterator\"", "include: /etc/shadow",
		"include-toplevel: \"/tmp/*.conf\"", "server:\n logfile: /etc/x", "server:\n trust-anchor-file: /etc/shadow", "server:\n auto-trust-anchor-file: /etc/x",
		"server: hide-identity: yes include: \"/etc/shadow\"", "server:\n hide-identity: yes include: \"/etc/shadow\"", "server:\n name: \"x\"include: \"/etc/shadow\"", "server:\n hide-version: yes python: python-script: \"/x.py\"",
		"server:\n username: \"\"", "server:\n username: root", "server:\n local-zone: \"x.\" static include: \"/etc/shadow\"", "server:\n local-data: \"x\\\\\" include: \"/etc/shadow\"", "server:\n directory: \"/tmp\"",
		"server:\n interface: /run/x", "server:\n num-threads: include:", "server:\n hide-version: \"yes\" include: \"/etc/shadow\"", "forward-zone:\n name: include:", "forward-zone:\n forward-addr: \"/etc/shadow\"", "server:\n local-data: x include: \"/etc/shadow\"",
		"server:\n local-zone: \"x.\" inform", "server:\n access-control: \"::0/0\" allow_snoop",
		"remote-control:\n control-interface: 0.0.0.0", "auth-zone:\n zonefile: /etc/x", "server:\n pidfile: /etc/x", "dnstap:\n",
	},
}
