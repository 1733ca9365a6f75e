#!/usr/bin/env bash
# Fetches the HAProxy 3.0 of Debian 13 with its libraries into .cache/haproxy3, and says so: the tests of HTTP/3 need it on a
# Debian 12, whose HAProxy has no QUIC. It runs from that folder alone, and nothing is installed on this machine. Nothing is
# done when it is there and runs already. To get a newer one, remove the folder.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/.cache/haproxy3

if "$folder/haproxy" -v >/dev/null 2>&1; then
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "The HAProxy 3.0 of the tests is missing, and only root can unpack it." >&2
	exit 1
fi

say() { printf '\033[1m==> %s\033[0m\n' "$1"; }

sources=$(packaging/sources.sh trixie)

say "fetching HAProxy 3.0 of Debian 13 into .cache/haproxy3"
mkdir -p "${folder%/*}"
# Everything happens next to the place it goes to, so that an interrupted run leaves no half of it there.
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --variant=extract --include=haproxy trixie "$work/debian" <<<"$sources"

say "binding it to its own libraries"
mkdir -p "$work/ready/lib"
loader=$(readlink -f "$work"/debian/usr/lib64/ld-linux-*)
libraries=$(echo "$work"/debian/usr/lib/*-linux-gnu)
cp "$work/debian/usr/sbin/haproxy" "$work/ready/haproxy"
cp "$loader" "$work/ready/lib/loader"
"$loader" --library-path "$libraries" --list "$work/ready/haproxy" | awk '$3 ~ /^\// && $1 !~ /^\// { print $3 }' |
	xargs cp -L -t "$work/ready/lib"
patchelf --set-interpreter "$folder/lib/loader" --force-rpath --set-rpath "$folder/lib" "$work/ready/haproxy"
rm -rf "$folder"
mv -T "$work/ready" "$folder"
chmod 755 "$folder"
"$folder/haproxy" -v | sed -n 1p
