#!/usr/bin/env bash
# Fetches the HAProxy 3.0 of Debian 13 with its libraries once, and prints where the program is: the tests of HTTP/3 need it on a
# Debian 12, whose HAProxy has no QUIC. It runs from its folder alone, and nothing is installed on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/cache.sh
# The gateway checks its configurations as a user who cannot enter root's home.
[ -n "${GATEWAY_CACHE:-}" ] || [ "$(id -u)" -ne 0 ] || cache=/var/cache/gateway
mkdir -p "$cache"
folder=$cache/haproxy3-$(key)
echo "$folder/haproxy"
[ ! -e "$folder" ] || exit 0
root_only "The HAProxy 3.0 of the tests"
claim "$folder"
[ ! -e "$folder" ] || exit 0

sources=$(packaging/sources.sh trixie)

say "fetching HAProxy 3.0 of Debian 13 (once, under a minute)"
# Everything happens next to the place it goes to, so that an interrupted run leaves no half of it there.
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --variant=extract --include=haproxy trixie "$work/debian" <<<"$sources" >&2

# It is bound to its own libraries.
mkdir -p "$work/ready/lib"
loader=$(readlink -f "$work"/debian/usr/lib64/ld-linux-*)
libraries=$(echo "$work"/debian/usr/lib/*-linux-gnu)
cp "$work/debian/usr/sbin/haproxy" "$work/ready/haproxy"
cp "$loader" "$work/ready/lib/loader"
"$loader" --library-path "$libraries" --list "$work/ready/haproxy" | awk '$3 ~ /^\// && $1 !~ /^\// { print $3 }' |
	xargs cp -L -t "$work/ready/lib"
patchelf --set-interpreter "$folder/lib/loader" --force-rpath --set-rpath "$folder/lib" "$work/ready/haproxy"
chmod 755 "$work/ready"
mv -T "$work/ready" "$folder"
"$folder/haproxy" -v | sed -n 1p >&2
