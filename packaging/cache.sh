# Sourced by the scripts that fetch or make something once for the tests. Each says on standard error what it does, and prints where
# the result is: outside of the checkout, so that every clone on this machine finds it, and under a name that changes with what it was
# made from. To begin again, remove the folder.
cache=${GATEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gateway}
mkdir -p "$cache"

say() { printf '\033[1m==> %s\033[0m\n' "$1" >&2; }

# key is short for the script that makes something, and for the words that it was called with.
key() { printf '%s\n' "$@" | cat - "$0" | sha256sum | cut -c1-12; }

# claim makes others wait that want to make the same thing.
claim() {
	exec 9>"$1.lock"
	flock 9
}

# root_only NAME ends the script for everybody but root.
root_only() {
	if [ "$(id -u)" -ne 0 ]; then
		echo "$1 is missing, and only root can make it." >&2
		exit 1
	fi
}
