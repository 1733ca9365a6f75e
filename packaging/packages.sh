#!/usr/bin/env bash
# Installs the Debian packages that are needed to run (run) or test (test) a gateway in a box. It does nothing if they are
# already installed, and starts no daemon on this machine.
set -euo pipefail

declare -A packages=(
	[run]="postgresql chrony haproxy iproute2 nftables util-linux ca-certificates
		unbound dns-root-data ieee-data squid kea-dhcp4-server freeradius wireguard-go crowdsec crowdsec-firewall-bouncer keepalived
		curl iputils-ping bind9-dnsutils traceroute tcpdump python3"
	[test]="postgresql chrony haproxy iproute2 nftables util-linux ca-certificates
		unbound dns-root-data ieee-data squid kea-dhcp4-server freeradius wireguard-go wireguard-tools crowdsec crowdsec-firewall-bouncer keepalived
		procps curl iputils-ping traceroute tcpdump python3 chromium-headless-shell fonts-dejavu-core
		qemu-system-x86 busybox-static cpio kmod xz-utils binutils mmdebstrap systemd-container patchelf strace nginx-light pebble bind9-dnsutils freeradius-utils
		exim4-daemon-light openssh-server lintian apt-utils gpg gpg-agent gpgv man-db systemd"
)
wanted=${packages[${1:?run or test}]}

missing=()
for p in $wanted; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "These Debian packages are missing, and only root can install them: ${missing[*]}" >&2
	exit 1
fi

printf '\033[1m==> installing Debian packages: %s\033[0m\n' "${missing[*]}"
# The lab runs its own daemons; those of the packages must not start on this machine (chrony would set its clock).
made=()
trap 'rm -f "${made[@]}"' EXIT
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	made+=("$policy")
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
# The lab creates its own database cluster; the package must not create one on this machine.
cluster=/etc/postgresql-common/createcluster.d/gateway-lab.conf
made+=("$cluster")
mkdir -p "${cluster%/*}"
echo 'create_main_cluster = false' >"$cluster"
# CrowdSec's package registers an account with the makers of CrowdSec, and its installation fails if they cannot be reached. A file without an
# account prevents that.
central=/etc/crowdsec/online_api_credentials.yaml
if [ ! -s "$central" ]; then
	mkdir -p "${central%/*}"
	echo '# no account at the central API' >"$central"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
