#!/usr/bin/env bash
# Boots a disk with Debian's kernel: emulator.sh KERNEL IMAGE CONSOLE. The machine's writes are discarded. Its second serial port is this
# script's input and output. Runs in a separate network namespace with the machine's WAN and LAN.
set -euo pipefail
kernel=$1 image=$2 console=$3

ip link set lo up
cards=()
for network in wan=198.51.100.1/24 lan=10.20.0.9/24; do
	name=${network%%=*}
	ip tuntap add "$name" mode tap
	ip addr add "${network#*=}" dev "$name"
	ip link set "$name" up
	cards+=(-netdev "tap,id=$name,ifname=$name,script=no,downscript=no" -device "virtio-net-pci,netdev=$name")
done
# Emulated, so that it runs anywhere. The kernel has the drivers of this disk and its file system built in. It keeps its complete log.
exec qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot -M q35 -cpu qemu64 -accel tcg,thread=multi -smp 2 -m 2048 \
	-kernel "$kernel/vmlinuz" -append "root=/dev/nvme0n1 rw console=ttyS0 quiet oops=panic panic=-1 systemd.getty_auto=no log_buf_len=8M sysctl.kernel.printk_ratelimit=0" \
	-snapshot -drive "file=$image,format=raw,if=none,id=disk,cache=unsafe" -device nvme,drive=disk,serial=disk \
	"${cards[@]}" -serial "file:$console" -serial stdio
