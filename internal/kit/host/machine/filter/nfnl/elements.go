package nfnl

import (
	"context"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Addresses lists the elements of a set of addresses. It fails with ENOENT if the set does not exist.
func Addresses(ctx context.Context, family uint8, table, set string) ([]netip.Addr, error) {
	var s Socket
	defer s.Close()
	var list []netip.Addr
	err := s.use(ctx, func(c *conn) error {
		c.begin(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETSETELEM, dumpFlags, family, 0)
		c.text(unix.NFTA_SET_ELEM_LIST_TABLE, table)
		c.text(unix.NFTA_SET_ELEM_LIST_SET, set)
		return c.exchange(ctx, func(_ uint16, attrs []byte) {
			for kind, elements := range attributes(attrs) {
				if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
					continue
				}
				for _, element := range attributes(elements) {
					if a, ok := netip.AddrFromSlice(elementKey(element)); ok {
						list = append(list, a)
					}
				}
			}
		})
	})
	return list, err
}

func elementKey(element []byte) []byte {
	for kind, key := range attributes(element) {
		if kind != unix.NFTA_SET_ELEM_KEY {
			continue
		}
		for kind, value := range attributes(key) {
			if kind == unix.NFTA_DATA_VALUE {
				return value
			}
		}
	}
	return nil
}
