package guard

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

// onlyLines refuses every line but some, and those that a function takes.
func onlyLines(take func(line string) bool, known ...string) func(text string) error {
	return func(text string) error {
		return lines(text, longest, func(words []string) error {
			if line := strings.Join(words, " "); !slices.Contains(known, line) && !take(line) {
				return fmt.Errorf("it has %q", line)
			}
			return nil
		})
	}
}

// databaseSettings are PostgreSQL's for other nodes: none of them runs or loads anything, and the files are the gateway's.
var databaseSettings = onlyLines(func(string) bool { return false },
	"listen_addresses = '*'", "ssl = on", "ssl_min_protocol_version = 'TLSv1.3'",
	"hba_file = '"+host.DatabaseAccess.Path()+"'", "ident_file = '"+host.DatabaseMembers.Path()+"'",
	"ssl_ca_file = '"+host.DatabaseAuthority.Path()+"'", "ssl_cert_file = '"+host.DatabaseIdentity.Path()+"'", "ssl_key_file = '"+host.DatabaseIdentity.Path()+"'",
	"wal_sender_timeout = '15s'", "wal_receiver_timeout = '15s'", "wal_retrieve_retry_interval = '1s'", "max_slot_wal_keep_size = '1GB'")

var databasePeer = regexp.MustCompile(`^hostssl gateway gateway_repl (\S+) cert clientcert=verify-full map=cluster$`)

// databaseAccess lets local users be who they are, and single other nodes in by their certificates.
var databaseAccess = onlyLines(func(line string) bool {
	m := databasePeer.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	p, err := netip.ParsePrefix(m[1])
	return err == nil && p.IsSingleIP()
}, "local all all peer map=gateway", "host all all 127.0.0.1/32 scram-sha-256", "host all all ::1/128 scram-sha-256")

var databaseMember = regexp.MustCompile(`^cluster [0-9A-Za-z][0-9A-Za-z-]{0,63} gateway_repl$`)

// databaseMembers says whose certificates are taken, and for what.
var databaseMembers = onlyLines(databaseMember.MatchString, `gateway /^(.*)$ \1`, "gateway root gateway")
