#!/usr/bin/env bash
# Runs a command in a Debian 13 (trixie) on this machine: packaging/trixie.sh make test. Its root is created the first time, which takes
# a minute, and keeps what is installed there; the checkout, Go and Node.js are those of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/cache.sh
tree=$PWD
place=$cache/trixie
root_only "The root of a Debian 13"

if [ ! -e "$place/root" ]; then
	say "creating a Debian 13 in $place (once, about a minute)"
	command -v mmdebstrap >/dev/null || packaging/packages.sh test
	sources=$(packaging/sources.sh trixie)
	mkdir -p "$place/cache"
	# Created next to its final path, so that an interrupted run leaves nothing incomplete there.
	work=$(mktemp -d "$place/making.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	mmdebstrap --quiet --variant=minbase --include=make,ca-certificates trixie "$work/root" <<<"$sources"
	mv "$work/root" "$place/root"
	rm -rf "$work"
fi

export GOMODCACHE GOCACHE GOFLAGS
GOMODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE) GOFLAGS=$(go env GOFLAGS)
goroot=$(go env GOROOT)
node=$(readlink -f "$(command -v node)")
npm=$(readlink -f "$(command -v npm)")
export tree place cache GATEWAY_CACHE=$cache goroot node modules=${npm%/npm/bin/*}

# All processes in it end with the command, and its mounts are not visible outside.
exec unshare --mount --pid --fork --kill-child bash -euo pipefail -c '
root=$place/root
mount --bind "$root" "$root"
share() { # the path on this machine, and the path in the root
	if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root${2%/*}" && touch "$root$2"; fi
	mount --bind "$1" "$root$2"
}
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/" # copies: if /etc is overmounted, as by a lab, bind mounts in it are hidden
share "$tree" "$tree"
share "$place/cache" "$cache"
mkdir -p "$GOMODCACHE" "$GOCACHE"
share "$GOMODCACHE" "$GOMODCACHE"
share "$GOCACHE" "$GOCACHE"
share "$goroot" "$goroot"
share "$node" /usr/local/bin/node
share "$modules" /usr/local/lib/node_modules
ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
ln -sf ../lib/node_modules/npm/bin/npx-cli.js "$root/usr/local/bin/npx"
cd "$root"
pivot_root . .
umount -l .
cd "$tree"
export PATH=$goroot/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"$@" || exit $? # no exec: this shell is init here, and reaps orphaned processes' trixie "$@"
