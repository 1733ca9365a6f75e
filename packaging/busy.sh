#!/usr/bin/env bash
# Runs a command on a machine that has other work: packaging/busy.sh 1 make test has an endless loop per core beside it.
set -euo pipefail
loops=()
trap 'kill "${loops[@]}"' EXIT
for ((loop = 0; loop < $1 * $(nproc); loop++)); do
	nice -n 5 sh -c 'while :; do :; done' &
	loops+=($!)
done
shift
"$@"
