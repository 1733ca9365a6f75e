#!/usr/bin/env bash
# Makes the root of a bare Debian that boots in systemd-nspawn, for the tests of test/appliance, in .cache/appliance, and says so:
# packaging/appliance.sh bookworm. Beside it lie, downloaded and not installed, the packages that the gateway depends on, so that a test
# installs it without a network. Nothing is done when it is there already. To get newer ones, remove the folder.
set -euo pipefail
cd "$(dirname "$0")/.."
release=${1:?name of a release}
place=$PWD/.cache/appliance
root=$place/$release

depends=$(awk '/^depends:/ { on = 1; next } /^[^ ]/ { on = 0 } on && $1 == "-" { print $2 }' packaging/deb/nfpm.yaml | sort)
# wget: ieee-data takes it or curl, and apt may choose either.
wanted="$depends wget wireguard-go apparmor crowdsec crowdsec-firewall-bouncer"
if [ "$(cat "$root.packages" 2>/dev/null)" = "$wanted" ]; then
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "The Debian of the tests is missing, and only root can make it." >&2
	exit 1
fi

printf '\033[1m==> %s\033[0m\n' "making a bare Debian ($release) for the tests of the package in .cache/appliance"
sources=$(packaging/sources.sh "$release")
mkdir -p "$place"
# Made next to the place it goes to, so that an interrupted run leaves no half of it there.
work=$(mktemp -d "$place/making.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
TMPDIR=$work mmdebstrap --quiet --mode=root --variant=minbase --include=systemd-sysv,dbus,ifupdown,iproute2,ca-certificates \
	--aptopt='APT::Install-Recommends "false"' --aptopt='Binary::apt-get::APT::Keep-Downloaded-Packages "true"' \
	--dpkgopt=force-unsafe-io --skip=cleanup/apt,cleanup/tmp \
	--customize-hook="chroot \"\$1\" apt-get install -qq -y --download-only $(echo $wanted)" \
	--customize-hook='mkdir -p "$1/etc/crowdsec" && echo "# no account at the central API" >"$1/etc/crowdsec/online_api_credentials.yaml"' \
	"$release" "$work/root" <<<"$sources"
rm -rf "$root"
mv "$work/root" "$root"
echo "$wanted" >"$work/packages"
mv "$work/packages" "$root.packages"
