#!/usr/bin/env bash
# Builds dist/gateway_VERSION_ARCH.deb from the programs in dist/build/VERSION/bin: packaging/deb/build.sh VERSION. Two builds of one
# commit are the same, byte by byte.
set -euo pipefail
cd "$(dirname "$0")/../.."
nfpm=v2.45.2

VERSION=${1:?version}
ARCH=${ARCH:-$(dpkg --print-architecture)}
# Debian 12's lintian reads nothing newer than xz.
COMPRESSION=${COMPRESSION:-xz}
STAGE=dist/build/$VERSION
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

tools=.cache/tools
if [ ! -x "$tools/nfpm-$nfpm" ]; then
	printf '\033[1m==> %s\033[0m\n' "installing nfpm $nfpm (once)"
	GOBIN="$PWD/$tools" go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm"
	mv "$tools/nfpm" "$tools/nfpm-$nfpm"
fi

# nfpm reads variables in a few fields alone.
config=$(<packaging/deb/nfpm.yaml)
for name in VERSION ARCH COMPRESSION STAGE MTIME; do
	config=${config//"\${$name}"/${!name}}
done
"$tools/nfpm-$nfpm" package --config <(echo "$config") --packager deb --target "dist/gateway_${VERSION}_$ARCH.deb"
