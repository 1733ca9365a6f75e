#!/usr/bin/env bash
# Builds a tool of a fixed version once, and prints where it is: nfpm makes the Debian package, versitygw is the S3 server of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
case $1 in
nfpm) version=v2.45.2 package=github.com/goreleaser/nfpm/v2/cmd/nfpm ;;
versitygw) version=v1.8.0 package=github.com/versity/versitygw/cmd/versitygw ;;
*) echo "there is no tool $1" >&2 && exit 2 ;;
esac
tool=.cache/tools/$1-$version

if [ ! -x "$tool" ]; then
	printf '\033[1m==> %s\033[0m\n' "installing $1 $version (once)" >&2
	# Its own folder, and renamed: two may do so at once.
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	GOBIN=$work go install -ldflags '-s -w' "$package@$version"
	mkdir -p .cache/tools
	cp "$work/$1" "$tool.$$"
	mv "$tool.$$" "$tool"
fi
echo "$PWD/$tool"
