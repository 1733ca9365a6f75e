package keatest

import (
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
)

// Hostile files would give an attacker more rights than the gateway has. The grammar must refuse them.
var Hostile = map[daemon.Place][]string{
	kea.Config: {`{"Dhcp4": {"hooks-libraries": [{"library": "/tmp/x.so"}]}}`, `{"Dhcp4": {"hooks-libraries": [{"library": "libdhcp_run_script.so"}]}}`, `{"Dhcp4": <?include "/etc/shadow"?>}`, `{"Dhcp4": {"control-socket": {"socket-name": "/tmp/x"}}}`, `{"Dhcp4": {"lease-database": {"type": "memfile", "name": "/etc/x"}}}`, `{"Dhcp4": {"lease-database": {"type": "mysql", "name": "x"}}}`,
		`{"Dhcp4": {"hooks-libraries": [{"library": "/tmp/x.so"}], "hooks-libraries": []}}`, `{"Dhcp4": {"loggers": [{"name": "kea-dhcp4", "output_options": [{"output": "/etc/x"}]}]}}`, `{"Dhcp4": {"hosts-database": {"type": "mysql"}}}`, `{"Dhcp4": {}, "Dhcp6": {}}`,
		`{"Dhcp4": {"subnet4": [{"id": 1, "user-context": {}}]}}`, `{"Dhcp4": {"subnet4": [{"id": 1, "option-data": [{"name": "boot-file-name", "data": "x"}]}]}}`, `{"Dhcp4": {"subnet4": [{"id": 1, "option-data": [{"name": "routers", "data": "<?include \"/etc/shadow\"?>"}]}]}}`,
		`{"Dhcp4": {"subnet4": [{"id": 1, "reservations": [{"hw-address": "x", "boot-file-name": "x"}]}]}}`, `{"Dhcp4": {"interfaces-config": {"interfaces": ["*"]}}}`, `{"Dhcp4": {"loggers": [{"name": "kea-ctrl-agent"}]}}`, `{"Dhcp4": {"control-socket": {"socket-type": "http", "socket-name": "` + kea.Where().Control + `"}}}`},
}
