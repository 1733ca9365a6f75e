// Package postgresql is PostgreSQL's server where nodes of a cluster reach one another's databases: what the kit knows of it.
package postgresql

import "edge.internal/gateway/internal/kit/host/daemon"

// The files.
const (
	Settings  daemon.Place = "postgresql.settings"
	Access    daemon.Place = "postgresql.hba"       // who may connect, from where
	Members   daemon.Place = "postgresql.ident"     // whose certificates are taken
	Authority daemon.Place = "postgresql.authority" // the cluster's certificate authority
	Identity  daemon.Place = "postgresql.identity"  // the node's certificate with its key, in one file: they are replaced together
)

// Folder is where they are.
const Folder = "/etc/postgresql/gateway"

const (
	accessPath    = Folder + "/hba.conf"
	membersPath   = Folder + "/ident.conf"
	authorityPath = Folder + "/authority.pem"
	identityPath  = Folder + "/node.pem"
)

// Daemon is its entry in the closed lists.
var Daemon = daemon.Daemon{
	Places: map[daemon.Place]daemon.PlaceSpec{
		Settings:  daemon.FileAt(Folder+"/gateway.conf", 0o644, "root", "root", admitSettings),
		Access:    daemon.FileAt(accessPath, 0o640, "root", "postgres", admitAccess),
		Members:   daemon.FileAt(membersPath, 0o640, "root", "postgres", admitMembers),
		Authority: daemon.FileAt(authorityPath, 0o644, "root", "root", nil),
		// PostgreSQL takes no key that others can read.
		Identity: daemon.FileAt(identityPath, 0o600, "postgres", "postgres", nil),
	},
	Verbs: verbs,
}
