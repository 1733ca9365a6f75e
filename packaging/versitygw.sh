#!/usr/bin/env bash
# Builds versitygw, the S3 server of the tests, once, and prints where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v1.8.0
tool=.cache/tools/versitygw-$version

if [ ! -x "$tool" ]; then
	printf '\033[1m==> %s\033[0m\n' "installing versitygw $version (once)" >&2
	# Its own folder, and renamed: two may do so at once.
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	GOBIN=$work go install -ldflags '-s -w' "github.com/versity/versitygw/cmd/versitygw@$version"
	mkdir -p .cache/tools
	cp "$work/versitygw" "$tool.$$"
	mv "$tool.$$" "$tool"
fi
echo "$PWD/$tool"
