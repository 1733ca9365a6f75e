package start

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/files"
)

// BecomeGateway makes root the gateway's user, so that what it writes is the gateway's. Where there is no such user, and below a root
// folder, everything belongs to who runs it.
func BecomeGateway(root string) error {
	if root != "" || os.Geteuid() != 0 {
		return nil
	}
	ids, err := Groups()
	if err != nil {
		return err
	}
	uid, gid, err := files.LookupOwner(host.User, host.User)
	if err != nil {
		return err
	}
	var groups []int
	for _, id := range ids {
		groups = append(groups, int(id))
	}
	return errors.Join(syscall.Setgroups(groups), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(uid, uid, uid))
}

// Groups are the groups of the gateway's user.
func Groups() (groups []uint32, err error) {
	u, err := user.Lookup(host.User)
	if err != nil {
		return nil, fmt.Errorf("the gateway is not installed here: %w", err)
	}
	names, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return nil, err
		}
		groups = append(groups, uint32(id))
	}
	return groups, nil
}
