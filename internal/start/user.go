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

// BecomeGateway switches from root to the gateway's user, so that written files belong to the gateway. Below a root folder,
// everything belongs to the user of this process.
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

// Groups returns the groups of the gateway's user.
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
