#!/usr/bin/env bash
# Builds nfpm, which makes the Debian package, once, and prints where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v2.45.2
tool=.cache/tools/nfpm-$version

if [ ! -x "$tool" ]; then
	printf '\033[1m==> %s\033[0m\n' "installing nfpm $version (once)" >&2
	# Its own folder, and renamed: two may do so at once.
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	GOBIN=$work go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$version"
	mkdir -p .cache/tools
	cp "$work/nfpm" "$tool.$$"
	mv "$tool.$$" "$tool"
fi
echo "$PWD/$tool"
