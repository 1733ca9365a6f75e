#!/usr/bin/env bash
# Creates a disk from a Debian, with the kernel's modules: image.sh ROOT KERNEL IMAGE. The root loses its downloaded packages.
set -euo pipefail
root=$1 kernel=$2 image=$3

rm -f "$root"/var/cache/apt/archives/*.deb
cp -r "$kernel/lib/modules" "$root/usr/lib/"
mke2fs -q -t ext4 -O ^has_journal -d "$root" "$image" 3G
