#!/usr/bin/env bash
# Checks formatting, vet, linters, and whether generated files are up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1m==> %s\033[0m\n' "$1"; }

say "gofmt and vet"
unformatted=$(gofmt -l cmd internal packaging test ui/*.go)
if [ -n "$unformatted" ]; then
	echo "not formatted: $unformatted" >&2
	exit 1
fi
go vet -tags vm,long ./...

linter=$(packaging/tool.sh golangci-lint)
say "golangci-lint"
"$linter" run --build-tags vm,long ./...

say "UI"
(cd ui && npm run --silent lint && npm run --silent typecheck)

say "generated files"
before=$(sha256sum api/openapi.json ui/src/api/schema.ts ui/src/api/fields.ts)
make --no-print-directory generate
if [ "$before" != "$(sha256sum api/openapi.json ui/src/api/schema.ts ui/src/api/fields.ts)" ]; then
	echo "api/openapi.json, ui/src/api/schema.ts or ui/src/api/fields.ts was out of date: commit what make generate has written" >&2
	exit 1
fi
