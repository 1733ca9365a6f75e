// Package schema contains the migrations of the database: numbered, applied in order, never changed once released.
package schema

import (
	"embed"
	_ "embed"
)

// Migrations are the files NNNN_*.sql.
//
//go:embed *.sql
var Migrations embed.FS

// Cluster is SQL that a superuser runs in the gateway's database, so that the gateway's own role can replicate. It is not a
// migration: the package, the lab and the tests run it.
//
//go:embed cluster/functions.sql
var Cluster string
