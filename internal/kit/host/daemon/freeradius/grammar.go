package freeradius

import (
	"regexp"

	"edge.internal/gateway/internal/kit/host/daemon/grammar"
)

// admit accepts the gateway's lines and no others: FreeRADIUS has too many ways to run and load programs, even while it only checks
// a file, to name them all.
var admit = grammar.OnlyLines(place.MatchString,
	"name = freeradius", "prefix = /usr", "libdir = /usr/lib/freeradius", "logdir = /var/log/freeradius", "run_dir = /run/freeradius", "pidfile = ${run_dir}/freeradius.pid", "correct_escapes = true", "hostname_lookups = no", "proxy_requests = no", "max_request_time = 5", "cleanup_delay = 5", "max_requests = 16384",
	"log {", "destination = files", "file = ${logdir}/radius.log", "colourise = no", "auth = no", "auth_badpass = no", "auth_goodpass = no", "}",
	"security {", "allow_core_dumps = no", "max_attributes = 200", "reject_delay = 1", "status_server = no",
	"thread pool {", "start_servers = 2", "max_servers = 8", "min_spare_servers = 1", "max_spare_servers = 4", "max_requests_per_server = 0",
	"modules {", "pap {", "normalise = no", "chap {", "files {", "filename = ${confdir}/gateway-users", "always reject {", "rcode = reject", "always ok {", "rcode = ok",
	"linelog {", "filename = ${logdir}/gateway-logins.log", "permissions = 0640",
	"$INCLUDE gateway-clients.conf", "server gateway {", "listen {", "type = auth", "type = acct",
	"authorize {", "update control {", "&Tmp-String-0 := 'unknown'", "&Tmp-String-0 := 'inactive'", "&Tmp-String-0 := 'method'", "reject", "files", "if (noop) {", "if (&control:Auth-Type == Reject) {", "if (&User-Password) {", "&Auth-Type := PAP", "elsif (&CHAP-Password) {", "&Auth-Type := CHAP", "else {",
	"authenticate {", "Auth-Type PAP {", "pap", "Auth-Type CHAP {", "chap",
	"post-auth {", "update reply {", "&Message-Authenticator := 0x00", "linelog", "Post-Auth-Type REJECT {", "update {", "&reply: !* ANY",
	"accounting {", "ok",
	`format = "%l|%{client:shortname}|%{reply:Packet-Type}|%{control:Tmp-String-0}|%{hex:&User-Name}|%{hex:&Calling-Station-Id}"`,
	`if (&User-Name =~ /^\+/ && "%{client:shortname}" != '+gateway') {`, `if (&User-Name !~ /^\+/ || "%{client:shortname}" != '+gateway') {`)

// place matches where FreeRADIUS listens, or where a client is.
var place = regexp.MustCompile(`^(?:ipv[46]addr = (?:\*|::|'` + grammar.Address + `')|port = [0-9]{1,5})$`)

// client matches a line about a client. Nothing in single quotes is expanded, and there a backslash may only precede a quote.
var client = regexp.MustCompile(`^(?:client (?:gateway|[0-9a-f-]{36}) \{|\}|shortname = (?:\+gateway|'[^'\\]*')|require_message_authenticator = (?:yes|no)|secret = '(?:[^'\\]|\\')*')$`)

var admitClients = grammar.OnlyLines(func(line string) bool { return place.MatchString(line) || client.MatchString(line) })

// A user has a name and a password, or is rejected, and may have a few reply attributes. Nothing in single quotes is expanded, and
// there a backslash may only precede a quote or another backslash, so that the text has only one reading.
var (
	user  = regexp.MustCompile(`^(?:\+[0-9a-f]{32}|[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}) (?:Auth-Type := Reject|Cleartext-Password := (?:[0-9a-f]{32}|'(?:[^'\\]|\\['\\])*'))$`)
	reply = regexp.MustCompile(`^(?:Framed-IP-Address := '[0-9.]+'|Session-Timeout := [0-9]{1,10}|Tunnel-Type := VLAN|Tunnel-Medium-Type := IEEE-802|Tunnel-Private-Group-Id := [0-9]{1,4})(?: ,)?$`)
)

var admitUsers = grammar.OnlyLines(func(line string) bool { return user.MatchString(line) || reply.MatchString(line) })
