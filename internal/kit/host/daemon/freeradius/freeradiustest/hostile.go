package freeradiustest

import (
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
)

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = map[daemon.Place][]string{
	freeradius.Config:  {"modules {\nperl x {\nfilename=/path/x.pl\n}\n}\nauthorize {\nx\n}", "perl x {", "filename=/path/x.pl", "libdir=/path", "libdir = /path # c", "ex\\\nec x {", "$INC\\\nLUDE /etc/shadow", "modules {\n per\\\nl {\n file\\\nname = /tmp/x.pl\n }\n}", "$-INCLUDE /etc/shadow", "$include /etc/shadow", "$INCLUDE gateway-clients.conf /etc/shadow", "mschap {\n ntlm_auth = \"/bin/id\"\n}", "filename=/etc/x", "pap { perl }", "modules { pap {", "modules {\n exec {\n }\n}", "modules {\n perl {\n }\n}", "modules {\n python3 {\n }\n}", "authorize {\n update reply {\n Reply-Message := `id`\n }\n}", "authorize {\n update reply {\n Reply-Message := \"%{exec:/bin/id}\"\n }\n}", "$INCLUDE /etc/shadow", "libdir = /tmp", "modules {\n rlm_exec = x\n}", "modules {\n detail {\n filename = /etc/x\n }\n}", "modules {\n linelog {\n filename = /etc/x\n }\n}"},
	freeradius.Clients: {"client gateway {\n secret = \"%{exec:/bin/id}\"\n}", "client x {\n}", "client gateway {\n secret = 'x' perl\n}", "$INCLUDE /etc/shadow", "modules {", "client gateway {\n secret = 'x\\'\n}", "client gateway {\n virtual_server = x\n}"},
	freeradius.Users: {"bob Cleartext-Password := x\\\n$INCLUDE /etc/shadow", "bob exec-program = '/bin/id'", "bob Cleartext-Password := `id`", "$INCLUDE /etc/shadow", "bob Exec-Program = \"/bin/id\"", "bob Cleartext-Password := \"%{exec:/bin/id}\"",
		"bob Cleartext-Password := 'x', Exec-Program := '/bin/id'", "bob Cleartext-Password := 'x'\n\tExec-Program-Wait = '/bin/id'", "bob Cleartext-Password := 'x'\n\tReply-Message := x", "bob Auth-Type := Accept", "bob Auth-Type := System",
		"bob Cleartext-Password := 'x\\n'", "bob Cleartext-Password := 'x", "bob Crypt-Password := 'x'", "+x Cleartext-Password := 'x'",
	},
}
