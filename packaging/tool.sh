#!/usr/bin/env bash
# Builds a pinned version of a tool once, and prints its path: nfpm builds the Debian package, versitygw is the S3 server of the tests,
# gotestsum runs the tests, golangci-lint checks the code.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/cache.sh
case $1 in
nfpm) version=v2.45.2 package=github.com/goreleaser/nfpm/v2/cmd/nfpm ;;
versitygw) version=v1.8.0 package=github.com/versity/versitygw/cmd/versitygw ;;
gotestsum) version=v1.13.0 package=gotest.tools/gotestsum ;;
golangci-lint) version=v2.14.0 package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint ;;
*) echo "unknown tool: $1" >&2 && exit 2 ;;
esac
tool=$cache/$1-$version-$(go env GOVERSION)
echo "$tool"
[ ! -e "$tool" ] || exit 0
claim "$tool"
[ ! -e "$tool" ] || exit 0

say "building $1 $version (once, up to two minutes)"
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
GOBIN=$work go install -ldflags '-s -w' "$package@$version" >&2
mv "$work/$1" "$tool"
