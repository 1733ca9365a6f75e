// Package chronytest has test data for chrony's grammar.
package chronytest

import (
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
)

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = map[daemon.Place][]string{
	chrony.DropIn: {"driftfile /etc/x", "mailonchange root@localhost 0.5", "include /etc/shadow", "confdir /tmp", "logdir /etc", "dumpdir /etc", "pidfile /etc/x", "keyfile /etc/shadow", "user root", "server a.example key 1", "#" + strings.Repeat("x", 2047) + "mailonchange root 1"},
}
