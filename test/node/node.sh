#!/usr/bin/env bash
# Boots a Debian in systemd-nspawn, with systemd as its first process, and again each time that it reboots or that its power is cut, which the
# file "cut" in the folder requests: node.sh ROOT FOLDER CGROUP NUMBER. The root
# is not changed: what the node writes is kept in memory. Runs in separate mount, network and process namespaces, which are
# outside of the node: they have the WAN (198.51.100.0/24, IPv6 2001:db8:1::/64) and, in the namespace "lan", the LAN. The second node
# and later ones share the network namespace of the first one, and with it the WAN.
set -euo pipefail
root=$1 folder=$2 cgroup=$3 number=$4

mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$folder"
mkdir "$folder"/{upper,work,root} /run/netns -p
mount -t tmpfs tmpfs /run/netns
mount -t overlay overlay -o "lowerdir=$root,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
mount --make-private "$folder/root"
# Every node has its own control groups: otherwise stopping a unit in one node would stop it in another.
for hierarchy in systemd unified; do
	mkdir -p "/sys/fs/cgroup/$hierarchy/$cgroup"
	echo $$ >"/sys/fs/cgroup/$hierarchy/$cgroup/cgroup.procs"
done

if [ "$number" = 1 ]; then
	ip link set lo up
	ip link add wan type bridge mcast_snooping 0
	ip addr add 198.51.100.1/24 dev wan
	ip addr add 2001:db8:1::1/64 dev wan nodad
	ip link set wan up
fi
ip netns add lan
ip -n lan link set lo up
status=133 # the exit status of nspawn when the node reboots
while [ $status = 133 ] || [ -e "$folder/cut" ]; do
	rm -f "$folder/cut"
	# A new network: a table or an address from before the reboot would prove nothing.
	ip link delete "wan$number" 2>/dev/null || true
	ip -n lan link delete eth0 2>/dev/null || true
	ip netns delete node 2>/dev/null || true
	ip netns add node
	ip link add "wan$number" type veth peer name eth0 netns node
	ip link set "wan$number" master wan up
	ip -n lan link add eth0 type veth peer name eth1 netns node
	ip -n lan addr add 10.20.0.9/24 dev eth0
	ip -n lan link set eth0 up
	status=0
	SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 SYSTEMD_NSPAWN_API_VFS_WRITABLE=network systemd-nspawn --quiet --directory="$folder/root" --machine=node \
		--hostname=node --boot --keep-unit --register=no --link-journal=no --network-namespace-path=/run/netns/node --capability=all \
		--system-call-filter='landlock_create_ruleset landlock_add_rule landlock_restrict_self' \
		--bind=/dev/net/tun --resolv-conf=off --timezone=off --console=pipe </dev/null || status=$?
done
exit "$status"
