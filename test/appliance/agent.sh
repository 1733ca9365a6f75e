#!/bin/sh
# Executes scripts of the test on the emulated machine, over its second serial port: a line with a script is answered by a line with its
# status and output. Scripts and output are in base64.
stty -F /dev/ttyS1 raw -echo
exec <>/dev/ttyS1 >&0
echo ready
while read -r line; do
	script=$(echo "$line" | base64 -d)
	output=$(sh -c "$script" 2>&1 </dev/null)
	status=$?
	echo "$status $(echo "$output" | base64 -w0)"
done
