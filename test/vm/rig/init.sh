#!/bin/busybox sh
# The first and only process of the machine: runs each test program, reports its result, and switches off. The kernel
# logs to ttyS0; ttyS1 is only for the tests, so that nothing is printed in the middle of their lines.
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /root /busybox
/bin/busybox --install -s /busybox
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/busybox HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
ip link set lo up
stty -F /dev/ttyS1 raw
exec </dev/null >/dev/ttyS1 2>&1
echo RIG-UP
cd /tmp
for test in /tests/*; do
	$test $(cat /arguments)
	printf '\nRIG-EXIT:%d\n' $?
done
poweroff -f
