// Package postgresql describes the PostgreSQL server to the kit, as far as it concerns replication between the nodes of a cluster.
package postgresql

import "edge.internal/gateway/internal/kit/host/daemon"

const (
	Settings  daemon.Place = "postgresql.settings"
	Access    daemon.Place = "postgresql.hba"       // who may connect, and from where
	Members   daemon.Place = "postgresql.ident"     // which certificates are accepted
	Authority daemon.Place = "postgresql.authority" // the cluster's certificate authority
	Identity  daemon.Place = "postgresql.identity"  // the node's certificate and key: one file, so that they are replaced together
)

const Folder = "/etc/postgresql/gateway"

const (
	accessPath    = Folder + "/hba.conf"
	membersPath   = Folder + "/ident.conf"
	authorityPath = Folder + "/authority.pem"
	identityPath  = Folder + "/node.pem"
)

var Daemon = daemon.Daemon{
	Places: map[daemon.Place]daemon.PlaceSpec{
		Settings:  daemon.FileAt(Folder+"/gateway.conf", 0o644, "root", "root", admitSettings),
		Access:    daemon.FileAt(accessPath, 0o640, "root", "postgres", admitAccess),
		Members:   daemon.FileAt(membersPath, 0o640, "root", "postgres", admitMembers),
		Authority: daemon.FileAt(authorityPath, 0o644, "root", "root", nil),
		// PostgreSQL refuses a key that others can read.
		Identity: daemon.FileAt(identityPath, 0o600, "postgres", "postgres", nil),
	},
	Verbs: verbs,
}
