#!/usr/bin/env bash
# Prints the Go packages whose tests need only Go: they use nothing that runs a daemon, changes the kernel or must be built first.
set -euo pipefail
cd "$(dirname "$0")/.."
module=edge.internal/gateway
go list -test -f '{{if eq .Name "main"}}{{.ImportPath}}{{range .Deps}} {{.}}{{end}}{{end}}' ./... | awk -v module="$module" '
	$1 !~ /\.test$/ { next }
	{ sub(/\.test$/, "", $1) }
	$1 ~ "^" module "/(test|internal/kit/host/machine|internal/kit/conf)" { next }
	{
		for (i = 2; i <= NF; i++)
			if ($i ~ "^" module "/(packaging|internal/lab|internal/kit/db/private|internal/kit/host/machine)") next
		print $1
	}'
