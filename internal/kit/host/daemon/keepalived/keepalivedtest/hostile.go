package keepalivedtest

import (
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
)

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = map[daemon.Place][]string{
	keepalived.Config: {
		"include /etc/shadow", "  include /etc/shadow", "notify /bin/id", "notify_master \"/bin/id\"", "script \"/bin/id\"", "script " + keepalived.Probe + " x", "script_user daemon", "script_user root", "vrrp_notify_fifo /etc/x",
		"vrrp_notify_fifo " + keepalived.States + " root", "notify_fifo_script /bin/id", "file /etc/shadow", "vrrp_script x {", "virtual_server 1.2.3.4 80 {", "$X=1", "@a priority 1", "! x", "} script x", "interface eth0 }",
		"priority 1 # x", "10.0.0.1/24 dev eth0 label x", "10.0.0.1/24 dev eth0\v", "include weight -253", "smtp_alert", "router_id gateway }", "net_namespace x",
		"#" + strings.Repeat("x", 1022) + "script \"/bin/id\"", "router_id \\\ngateway",
		"}", "track_file {\n drain\n}", "vrrp_instance gateway {\n track_file {\n drain\n}", "vrrp_instance gateway {\n track_file {\n drain\n virtual_ipaddress {\n }\n }\n}",
	},
	keepalived.Drain: {"", "2", "0\n1", "-253"},
}
