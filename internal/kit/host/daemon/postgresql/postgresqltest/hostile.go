// Package postgresqltest has test data for PostgreSQL's grammars.
package postgresqltest

import (
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
)

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = map[daemon.Place][]string{
	postgresql.Settings: {
		"shared_preload_libraries = '/tmp/x.so'", "archive_command = '/bin/id'", "include '/etc/shadow'", "ssl_key_file = '/etc/shadow'", "ssl = off", "hba_file = '/tmp/x'",
		"ssl_passphrase_command = '/bin/id'", "listen_addresses = '*' ssl = off",
	},
	postgresql.Access: {
		"host all all 0.0.0.0/0 trust", "local all all trust", "hostssl all all 192.0.2.1/32 cert", "include /etc/shadow", "@/etc/shadow",
		"hostssl gateway gateway_repl 192.0.2.0/24 cert clientcert=verify-full map=cluster", "hostssl gateway gateway_repl 192.0.2.1/32 cert map=cluster",
	},
	postgresql.Members: {"cluster /.* gateway_repl", "cluster x postgres", "gateway gateway postgres", "include /etc/shadow"},
}
