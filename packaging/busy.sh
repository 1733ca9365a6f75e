#!/usr/bin/env bash
# Runs a command on a busy machine: packaging/busy.sh 1 make test runs one endless loop per core next to it.
set -euo pipefail
loops=()
trap 'kill "${loops[@]}"' EXIT
for ((loop = 0; loop < $1 * $(nproc); loop++)); do
	nice -n 5 sh -c 'while :; do :; done' &
	loops+=($!)
done
shift
"$@"
