#!/usr/bin/env bash
# Makes the root of a bare Debian that boots in systemd-nspawn once, for the tests of test/appliance, and prints its folder:
# packaging/appliance.sh bookworm. In its cache lie, downloaded and not installed, the packages that the gateway depends on, so that a test
# installs it without a network.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/cache.sh
release=${1:?name of a release}

depends=$(awk '/^depends:/ { on = 1; next } /^[^ ]/ { on = 0 } on && $1 == "-" { print $2 }' packaging/deb/nfpm.yaml | sort)
# wget: ieee-data takes it or curl, and apt may choose either.
wanted="$depends wget wireguard-go apparmor crowdsec crowdsec-firewall-bouncer"
root=$cache/appliance-$release-$(key "$wanted")
echo "$root"
[ ! -e "$root" ] || exit 0
root_only "The Debian of the tests"
claim "$root"
[ ! -e "$root" ] || exit 0

say "making a bare Debian ($release) for the tests of the package (once, about two minutes)"
sources=$(packaging/sources.sh "$release")
# libkmod2: every Debian with a kernel has it, and without it Debian 13's systemd cannot load modules.
# Made next to the place it goes to, so that an interrupted run leaves no half of it there.
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
TMPDIR=$work mmdebstrap --quiet --mode=root --variant=minbase --include=systemd-sysv,dbus,ifupdown,iproute2,ca-certificates,libkmod2 \
	--aptopt='APT::Install-Recommends "false"' --aptopt='Binary::apt-get::APT::Keep-Downloaded-Packages "true"' \
	--dpkgopt=force-unsafe-io --skip=cleanup/apt,cleanup/tmp \
	--customize-hook="chroot \"\$1\" apt-get install -qq -y --download-only $(echo $wanted)" \
	--customize-hook='mkdir -p "$1/etc/crowdsec" && echo "# no account at the central API" >"$1/etc/crowdsec/online_api_credentials.yaml"' \
	"$release" "$work/root" <<<"$sources" >&2
mv -T "$work/root" "$root"
