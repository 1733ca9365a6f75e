# Sourced by the scripts that download or build something once for the tests. Each reports on standard error what it does, and prints
# the path of the result: it is outside of the checkout, so that all clones on this machine share it, and its name changes with its
# sources. To start over, remove the folder.
cache=${GATEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gateway}
mkdir -p "$cache"

say() { printf '\033[1m==> %s\033[0m\n' "$1" >&2; }

# key prints a hash of the calling script and the arguments.
key() { printf '%s\n' "$@" | cat - "$0" | sha256sum | cut -c1-12; }

# claim makes other processes wait that want to create the same path.
claim() {
	exec 9>"$1.lock"
	flock 9
}

# root_only NAME ends the script unless root runs it.
root_only() {
	if [ "$(id -u)" -ne 0 ]; then
		echo "$1 is missing, and only root can create it." >&2
		exit 1
	fi
}
