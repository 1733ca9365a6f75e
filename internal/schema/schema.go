// Package schema is the history of the database: numbered migrations, applied in order, never changed once released.
package schema

import "embed"

// Migrations are the files NNNN_*.sql.
//
//go:embed *.sql
var Migrations embed.FS
