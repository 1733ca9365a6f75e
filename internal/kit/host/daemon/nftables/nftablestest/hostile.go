// Package nftablestest has what tests need of the packet filter.
package nftablestest

import (
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
)

// table is how the gateway's packet filter begins.
const table = "table inet gateway\ndelete table inet gateway\ntable inet gateway {\n"

// Hostile are files that give an attacker more than the gateway has.
var Hostile = map[daemon.Place][]string{
	// What is about other tables, or leaves the gateway's own; and what reads files.
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
