package root

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// firstReach tries the ports of a machine with the first table from another one. Each word that it prints is a port that answers.
const firstReach = `
set -e
ip link set lo up
unshare --net sleep infinity &
trap 'kill %1' EXIT
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
ip link add gw type veth peer name eth0 netns $!
ip addr add 192.0.2.1/24 dev gw
ip link set gw up
nsenter --target $! --net sh -c 'ip addr add 192.0.2.2/24 dev eth0; ip link set eth0 up'
nft -f "$1"
python3 - $! <<'END'
import ctypes, os, socket, sys
ports = [22, 80, 443, 3443]
heard = [socket.create_server(("0.0.0.0", p)) for p in ports]
if ctypes.CDLL(None, use_errno=True).setns(os.open(f"/proc/{sys.argv[1]}/ns/net", os.O_RDONLY), 0):
    raise OSError(ctypes.get_errno(), "setns")
def answers(port, within):
    try:
        socket.create_connection(("192.0.2.1", port), within).close()
        return True
    except TimeoutError:
        return False
print(*[p for p in ports if answers(p, 30 if p in (22, 3443) else 1)])
END
`

func TestFirstTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "first.nft")
	if err := os.WriteFile(file, firstTable, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unshare", "--net", "bash", "-c", firstReach, "bash", file).CombinedOutput()
	if err != nil || string(out) != "22 3443\n" {
		t.Errorf("%v: the ports that answer are %s", err, out)
	}
}
