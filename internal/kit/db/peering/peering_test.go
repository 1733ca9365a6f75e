package peering_test

import (
	"net/netip"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db/peering"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/host/helper/guard"
)

// The helper accepts what is rendered, and nothing that differs from it in a single word.
func TestTheHelperTakesNothingElse(t *testing.T) {
	authority, identity := certificates(t)
	s := peering.Settings{Authority: authority, Identity: identity, Peers: []peering.Peer{
		{ID: "0123456789abcdef0123456789abcdef", Address: netip.MustParseAddr("10.99.0.12")}, {ID: "fedcba98-7654-3210-fedc-ba9876543210", Address: netip.MustParseAddr("fd00:99::13")},
	}}
	files, err := s.Files(host.Place.Path)
	if err != nil {
		t.Fatal(err)
	}
	if last := files[len(files)-1].Place; last != postgresql.Settings {
		t.Errorf("the last file is %s, and not the one that names the others", last)
	}
	for _, f := range files {
		if err := guard.Admit(f); err != nil {
			t.Error(err)
		}
	}
	for place, hostile := range map[host.Place][]string{
		postgresql.Settings: {
			"archive_command = 'id'", "shared_preload_libraries = 'x'", "hba_file = '/tmp/hba.conf'", "ssl = off", "ssl_passphrase_command = 'id'", "include '/tmp/x'",
			"listen_addresses = '*' # '\nssl = off", "ssl_min_protocol_version = 'TLSv1'", "krb_server_keyfile = '/etc/shadow'",
		},
		postgresql.Access: {
			"host all all 0.0.0.0/0 trust", "local all all trust", "hostssl gateway gateway_repl 0.0.0.0/0 cert clientcert=verify-full map=cluster",
			"hostssl gateway gateway_repl 10.99.0.0/24 cert clientcert=verify-full map=cluster", "hostssl all gateway_repl 10.99.0.12/32 cert clientcert=verify-full map=cluster",
			"hostssl gateway postgres 10.99.0.12/32 cert clientcert=verify-full map=cluster", "hostssl gateway gateway_repl 10.99.0.12/32 cert clientcert=verify-full map=gateway",
			"host gateway gateway_repl 10.99.0.12/32 cert clientcert=verify-full map=cluster", "hostssl gateway gateway_repl all cert clientcert=verify-full map=cluster",
			"local all all pam pamservice=x", "@/etc/passwd",
		},
		postgresql.Members: {
			"cluster /.* gateway_repl", "cluster node postgres", "gateway gateway postgres", "gateway /^(.*)$ postgres", "cluster \"a b\" gateway_repl", "gateway gateway-waf gateway",
		},
	} {
		for _, line := range hostile {
			if guard.Admit(host.File{Place: place, Content: []byte(line + "\n")}) == nil {
				t.Errorf("%s may have %s", place, line)
			}
		}
	}
	for _, p := range []peering.Peer{{ID: "a b", Address: netip.MustParseAddr("10.0.0.1")}, {ID: "/.*", Address: netip.MustParseAddr("10.0.0.1")}, {ID: "a\nb", Address: netip.MustParseAddr("10.0.0.1")}, {ID: "a"}} {
		s.Peers = []peering.Peer{p}
		if files, err := s.Files(host.Place.Path); err == nil {
			t.Errorf("%+v: %s", p, files[2].Content)
		}
	}
	s.Peers = nil
	s.Identity = []byte(strings.Replace(string(identity), "PRIVATE KEY", "PUBLIC KEY", 2))
	if _, err := s.Files(host.Place.Path); err == nil {
		t.Error("a certificate without its key is taken")
	}
}
