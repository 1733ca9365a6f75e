package postgresql

import (
	"net/netip"
	"regexp"

	"edge.internal/gateway/internal/kit/host/daemon/grammar"
)

// admitSettings accepts the settings for replication. None of them can run or load anything, and all files are the gateway's.
var admitSettings = grammar.OnlyLines(func(string) bool { return false },
	"listen_addresses = '*'", "ssl = on", "ssl_min_protocol_version = 'TLSv1.3'",
	"hba_file = '"+accessPath+"'", "ident_file = '"+membersPath+"'",
	"ssl_ca_file = '"+authorityPath+"'", "ssl_cert_file = '"+identityPath+"'", "ssl_key_file = '"+identityPath+"'",
	"wal_sender_timeout = '15s'", "wal_receiver_timeout = '15s'", "wal_retrieve_retry_interval = '1s'", "max_slot_wal_keep_size = '1GB'")

var peer = regexp.MustCompile(`^hostssl gateway gateway_repl (\S+) cert clientcert=verify-full map=cluster$`)

// admitAccess lets local users log in under their own names, and single nodes by certificate.
var admitAccess = grammar.OnlyLines(func(line string) bool {
	m := peer.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	p, err := netip.ParsePrefix(m[1])
	return err == nil && p.IsSingleIP()
}, "local all all peer map=gateway", "host all all 127.0.0.1/32 scram-sha-256", "host all all ::1/128 scram-sha-256")

var member = regexp.MustCompile(`^cluster [0-9A-Za-z][0-9A-Za-z-]{0,63} gateway_repl$`)

// admitMembers accepts which certificates may log in, and as whom.
var admitMembers = grammar.OnlyLines(member.MatchString, `gateway /^(.*)$ \1`, "gateway root gateway")
