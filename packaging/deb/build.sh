#!/usr/bin/env bash
# Builds DIST/gateway_VERSION_ARCH.deb from the programs in DIST/build/VERSION/bin: packaging/deb/build.sh DIST VERSION. Builds are
# reproducible, byte by byte.
set -euo pipefail
cd "$(dirname "$0")/../.."
nfpm=$(packaging/tool.sh nfpm)

DIST=${1:?folder} VERSION=${2:?version}
ARCH=$(dpkg --print-architecture)
# xz, or none for tests. Debian 12's lintian reads nothing newer.
COMPRESSION=${COMPRESSION:-xz}
STAGE=$DIST/build/$VERSION
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

docs=$STAGE/docs
rm -rf "$docs"
mkdir -p "$docs"
for page in packaging/deb/man/*; do
	gzip -9n <"$page" >"$docs/${page##*/}.gz"
done
gzip -9n <packaging/deb/changelog >"$docs/changelog.gz"
for shell in bash zsh; do
	"$STAGE/bin/gateway-ctl" completion "$shell" >"$docs/completion.$shell"
done
go run ./packaging/notices -programs "$STAGE/bin" -ui ui -modules "$(go env GOMODCACHE)" -go "$(go env GOROOT)" \
	-version "$VERSION" -date "$SOURCE_DATE_EPOCH" -copyright "$docs/copyright" -sbom "$docs/sbom.cdx.json"

# nfpm itself expands variables in a few fields only.
config=$(<packaging/deb/nfpm.yaml)
for name in VERSION ARCH STAGE MTIME; do
	config=${config//"\${$name}"/${!name}}
done
# Built elsewhere and renamed, so that an interrupted build leaves no incomplete package.
name=gateway_${VERSION}_$ARCH.deb
"$nfpm" package --config <(echo "$config") --packager deb --target "$STAGE/$name"
if [ "$COMPRESSION" = xz ]; then
	# The programs have much in common, but beyond the window of nfpm's own xz, which makes the package twice as large.
	(
		cd "$STAGE"
		ar x "$name"
		xz -9 -T1 -f data.tar
		rm "$name"
		ar rcD "$name" debian-binary control.tar.gz data.tar.xz
		rm debian-binary control.tar.gz data.tar.xz
	)
fi
mv "$STAGE/$name" "$DIST/$name"
