// Package nftablestest has test data for the packet filter's grammar.
package nftablestest

import (
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
)

// table is the start of the gateway's packet filter.
const table = "table inet gateway\ndelete table inet gateway\ntable inet gateway {\n"

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = map[daemon.Place][]string{
	// Statements about other tables, escapes from the gateway's own, and includes.
	nftables.Table: {
		"flush ruleset", "table inet x {\n}", "delete table ip crowdsec", table + "}\nflush ruleset", table + "}\ntable ip x {\n}", table + "\tchain input {\n\t accept } } flush ruleset ; table inet x { chain y {\n\t}\n}",
		table + "\tchain input {\n\t accept\n\t} } flush ruleset\n\t}\n}", table + "\tchain input {\n\t tcp dport { 22 # }\n\t}\n}", table + "\tchain input {\n\t accept ; drop\n\t}\n}", table + "\tchain input {\n\t include \"/etc/shadow\"\n\t}\n}",
		table + "\tchain input {\n\t\ttype filter hook input priority filter; policy drop; include \"/etc/shadow\";\n\t}\n}", table + "\tchain input {\n\t define x = 1\n\t}\n}", table + "\tchain x { include \"/etc/shadow\" ; } ; chain input {\n\t}\n}",
		table + "\tset x {\n\t\ttype ipv4_addr; include \"/etc/shadow\"\n\t\tflags interval\n\t}\n}", table + "\tset x {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 1.2.3.4 } ; include \"/etc/shadow\" ; { }\n\t}\n}",
		table + "\tchain input {\n\t\ttype filter hook ingress device eth0 priority filter; policy drop;\n\t}\n}",
		"define a = \"b\n\"; include \"/file\"; define c = \"\n\"", "include \"/etc/shadow\"", "table inet x { }; include \"/etc/shadow\"", "\tinclude \"/etc/shadow\"",
		"table inet gateway {\n comment \"x\n\"\n}\n" + "include \"/etc/shadow\"", "comment \"x\n\" ; include \"/etc/shadow\"", "inclu\\\nde \"/etc/shadow\"",
	},
}
