#!/usr/bin/env bash
# Fetches the kernel that the tests of test/vm boot, Debian's for clouds, once, and prints its folder. Nothing is installed on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/cache.sh
kernel=$cache/kernel-$(. /etc/os-release && echo "$VERSION_CODENAME")-$(key)
echo "$kernel"
[ ! -e "$kernel" ] || exit 0
root_only "The kernel of the tests' virtual machine"
claim "$kernel"
[ ! -e "$kernel" ] || exit 0

# The archive keeps only the newest versions, so the one to fetch is asked for each time.
say "updating the package lists for the kernel of the tests' virtual machine"
apt-get update -qq >&2
package=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-/ && !n++ { print $2 }')
if [ -z "$package" ]; then
	echo "apt knows no linux-image-cloud-amd64: are the package lists those of Debian, for amd64?" >&2
	exit 1
fi

say "fetching $package (once, under a minute)"
# Everything happens next to the place it goes to, so that an interrupted run leaves no half of a kernel there.
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
# As root, apt would give the download to a user who cannot write here.
(cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package" >&2)
dpkg-deb -x "$work"/*.deb "$work/kernel"
# Debian 13 has the modules below /usr, and packs each. The machine loads them by plain names, without their packer.
[ -e "$work/kernel/lib" ] || mv "$work/kernel/usr/lib" "$work/kernel/lib"
find "$work/kernel/lib/modules" -name '*.ko.xz' -exec unxz {} +
version=$(ls "$work/kernel/lib/modules")
/sbin/depmod -b "$work/kernel" "$version"
mv "$work/kernel/boot/vmlinuz-$version" "$work/kernel/vmlinuz"
mv -T "$work/kernel" "$kernel"
