package edits

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"time"
)

type row = map[string]any

// kind describes how rows of a kind are edited. make is the body of a new row, with a unique number; change is an update. Without make, rows are neither
// created nor deleted, and without change they are not updated; one means that the kind has a single row. Rows of a kind below another one are listed
// under each of its rows, and those that extend another one are found by its rows. With free, only rows that it accepts are edited.
type kind struct {
	name, path   string
	below, of    string
	make, change func(e *Editor, n int) row
	one          bool
	free         func(x row) bool
}

func described(field string) func(*Editor, int) row {
	return func(_ *Editor, n int) row { return row{field: fmt.Sprintf("edit %d", n)} }
}

// usual are the kinds whose rows contain nothing that the gateway generates, and have no special requirements.
var usual = []kind{
	{name: "firewall.address-object", path: "/firewall/address-objects", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("object-%d", n), "kind": "host", "value": e.address(n)}
	}, change: func(e *Editor, n int) row { return row{"value": e.address(n)} }},
	{name: "firewall.service", path: "/firewall/services", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("service-%d", n), "protocol": e.one("tcp", "udp"), "port_start": 1024 + n%60000}
	}, change: func(_ *Editor, n int) row { return row{"port_start": 1024 + n%60000} }},
	{name: "firewall.rule", path: "/firewall/rules", make: func(e *Editor, n int) row {
		body := row{"name": fmt.Sprintf("rule %d", n), "src_zone": e.one("lan", "wan", "any"), "dst_zone": e.one("wan", "self"), "action": e.one("accept", "drop", "reject")}
		if id := e.some("/firewall/services"); id != "" {
			body["service_object_id"] = id
		}
		return body
	}, change: func(e *Editor, n int) row {
		return row{"action": e.one("accept", "drop", "reject"), "enabled": n%2 == 0, "comment": fmt.Sprintf("edit %d", n)}
	}},
	{name: "firewall.nat-rule", path: "/nat-rules", make: func(_ *Editor, n int) row {
		return row{"name": fmt.Sprintf("forward %d", n), "kind": "dnat", "in_zone": "wan", "out_zone": "any", "protocol": "tcp", "dst_port": 10000 + n%50000, "target_address": "10.10.0.2"}
	}, change: func(_ *Editor, n int) row { return row{"enabled": n%2 == 0, "comment": fmt.Sprintf("edit %d", n)} }},
	{name: "dns.zone", path: "/dns/zones", make: func(_ *Editor, n int) row { return row{"name": fmt.Sprintf("zone%d.example.net", n)} }, change: described("description")},
	{name: "dns.record", path: "/dns/records", make: func(e *Editor, n int) row {
		zone := e.some("/dns/zones")
		if zone == "" {
			return nil
		}
		return row{"zone_id": zone, "name": fmt.Sprintf("host%d", n), "type": "A", "value": e.address(n)}
	}, change: func(e *Editor, n int) row { return row{"value": e.address(n)} }},
	{name: "ntp.pool", path: "/ntp/pools", make: func(_ *Editor, n int) row {
		return row{"kind": "pool", "address": fmt.Sprintf("time%d.example.net", n)}
	}, change: func(_ *Editor, n int) row { return row{"iburst": n%2 == 0, "maxpoll": 7 + n%4} }},
	{name: "proxy.backend", path: "/backends", make: func(_ *Editor, n int) row {
		return row{"name": fmt.Sprintf("backend-%d", n), "scheme": "http", "health_check_enabled": false}
	}, change: func(e *Editor, _ int) row { return row{"lb_algorithm": e.one("roundrobin", "leastconn", "source")} }},
	{name: "proxy.domain", path: "/domains", make: func(e *Editor, n int) row {
		backend := e.some("/backends")
		if backend == "" {
			return nil
		}
		return row{"name": fmt.Sprintf("site%d.example.net", n), "backend_id": backend, "http_to_https": false}
	}, change: func(_ *Editor, n int) row { return row{"http_to_https": n%2 == 0} }},
	{name: "radius.client", path: "/radius/clients", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("switch-%d", n), "address": e.address(n), "secret": fmt.Sprintf("shared secret %d", n)}
	}, change: func(_ *Editor, n int) row { return row{"secret": fmt.Sprintf("another secret %d", n)} }},
	{name: "forward-proxy.acl", path: "/forward-proxy/acls", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("acl-%d", n), "type": "src", "value": e.address(n), "action": e.one("allow", "deny")}
	}, change: func(e *Editor, _ int) row { return row{"action": e.one("allow", "deny")} }},
	{name: "network.route", path: "/routes", make: func(_ *Editor, n int) row {
		return row{"destination": fmt.Sprintf("203.0.%d.0/24", n%250), "gateway": "198.51.100.2"}
	}, change: described("comment")},
	{name: "firewall.address-group", path: "/firewall/address-groups", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("addresses-%d", n), "members": e.members("/firewall/address-objects")}
	}, change: func(e *Editor, _ int) row { return row{"members": e.members("/firewall/address-objects")} }},
	{name: "firewall.service-group", path: "/firewall/service-groups", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("services-%d", n), "members": e.members("/firewall/services")}
	}, change: described("description")},
	{name: "proxy.server", path: "/backend-servers", make: func(e *Editor, n int) row {
		backend := e.some("/backends")
		if backend == "" {
			return nil
		}
		return row{"backend_id": backend, "name": fmt.Sprintf("server-%d", n), "address": e.address(n), "port": 8000 + n%1000}
	}, change: func(_ *Editor, n int) row { return row{"weight": n % 200, "active": n%3 > 0} }},
	{name: "proxy.routing-rule", path: "/routing-rules", make: func(e *Editor, n int) row {
		domain, backend := e.some("/domains"), e.some("/backends")
		if domain == "" || backend == "" {
			return nil
		}
		return row{"domain_id": domain, "backend_id": backend, "path_prefix": fmt.Sprintf("/part%d", n)}
	}, change: func(_ *Editor, n int) row { return row{"strip_prefix": n%2 == 0} }},
	{name: "radius.user", path: "/radius/users", make: func(_ *Editor, n int) row {
		return row{"name": fmt.Sprintf("person-%d", n), "password": fmt.Sprintf("a password %d", n)}
	}, change: func(_ *Editor, n int) row { return row{"active": n%2 == 0} }},
	{name: "tunnel.interface", path: "/tunnel/interfaces", make: func(_ *Editor, n int) row {
		return row{"name": fmt.Sprintf("wg%d", n), "address_cidr": fmt.Sprintf("10.%d.%d.1/24", 200+n>>8&31, n&255), "listen_port": 20000 + n%40000}
	}, change: func(_ *Editor, n int) row { return row{"endpoint_host": fmt.Sprintf("vpn%d.example.net", n)} }},
	{name: "tunnel.peer", path: "/peers", make: func(e *Editor, n int) row {
		tunnel := e.some("/tunnel/interfaces")
		if tunnel == "" {
			return nil
		}
		return row{"interface_id": tunnel, "name": fmt.Sprintf("peer-%d", n)}
	}, change: func(_ *Editor, n int) row { return row{"keepalive": n % 100, "active": n%3 > 0} }},
	{name: "dhcp.subnet", path: "/dhcp/subnets", make: func(_ *Editor, n int) row {
		network := fmt.Sprintf("10.%d.%d.", 150+n>>8&31, n&255)
		return row{"interface": "lan0", "cidr": network + "0/24", "range_start": network + "100", "range_end": network + "200", "active": false}
	}, change: func(_ *Editor, n int) row { return row{"lease_seconds": 600 + n%600} }},
	{name: "network.interface", path: "/network-interfaces", change: described("description")},
	{name: "network.ip-address", path: "/ip-addresses", make: func(e *Editor, n int) row {
		return row{"interface_id": e.some("/network-interfaces"), "address": e.address(n), "prefix": 32}
	}, change: described("description"), free: func(x row) bool { return x["prefix"] == 32.0 }},
	{name: "ntp.settings", path: "/ntp/settings", one: true, change: func(_ *Editor, n int) row { return row{"rtcsync": n%2 == 0} }},
	{name: "dns.settings", path: "/dns/settings", one: true, change: func(_ *Editor, n int) row { return row{"cache_max_ttl": 3600 + n%3600} }},
	{name: "dhcp.settings", path: "/dhcp/settings", one: true, change: func(_ *Editor, n int) row { return row{"default_lease_seconds": 600 + n%600} }},
	{name: "alert.settings", path: "/alerts/settings", one: true, change: func(e *Editor, n int) row { return row{"cert_warning_days": 15 + n%15} }},
}

var special = []kind{
	{name: "user", path: "/users", change: func(e *Editor, n int) row { return row{"name": fmt.Sprintf("Person %d", n)} }},
	{name: "oidc.settings", path: "/oidc/settings", one: true, change: func(e *Editor, n int) row { return row{"client_id": fmt.Sprintf("client-%d", n)} }},
	{name: "alert.channel", path: "/alerts", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("hook %d", n), "kind": "webhook", "active": false, "target": fmt.Sprintf("https://hooks%d.example.net/a", n),
			"settings": row{"headers": row{"Authorization": fmt.Sprintf("Bearer token-%d", n)}}}
	}, change: func(e *Editor, _ int) row { return row{"min_severity": e.one("info", "warning", "error", "critical")} }},
	{name: "alert.mute", path: "/alert-mutes", make: func(e *Editor, n int) row {
		return row{"kind": e.one("system.disk", "system.memory"), "until": time.Now().AddDate(0, 0, 7).UTC().Format(time.RFC3339), "reason": fmt.Sprintf("reason %d", n)}
	}, change: func(_ *Editor, n int) row {
		return row{"until": time.Now().AddDate(0, 0, 1+n%100).UTC().Format(time.RFC3339), "reason": fmt.Sprintf("reason %d", n)}
	}},
	{name: "backup.settings", path: "/backup-settings", one: true, change: func(e *Editor, n int) row {
		return row{"passphrase": fmt.Sprintf("a long passphrase %d", n), "prove": n%2 == 0}
	}},
	{name: "backup.remote", path: "/backup-remotes", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("bucket %d", n), "kind": "s3", "active": false,
			"settings": row{"endpoint": "s3.example.net", "bucket": fmt.Sprintf("backups-%d", n), "access_key": "key", "secret_key": fmt.Sprintf("secret-%d", n)}}
	}, change: func(e *Editor, n int) row { return row{"keep": 1 + n%50} }},
	{name: "certificate.certificate", path: "/certificates", make: func(_ *Editor, n int) row {
		certificate, key := pair(fmt.Sprintf("uploaded%d.example.net", n))
		return row{"source": "uploaded", "names": []string{fmt.Sprintf("uploaded%d.example.net", n)}, "certificate_pem": certificate, "private_key_pem": key}
	}, change: func(_ *Editor, n int) row {
		certificate, key := pair(fmt.Sprintf("uploaded%d.example.net", n))
		return row{"names": []string{fmt.Sprintf("uploaded%d.example.net", n)}, "certificate_pem": certificate, "private_key_pem": key}
	}, free: func(x row) bool { return x["source"] == "uploaded" }},
	{name: "certificate.dns-provider", path: "/dns-providers", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("provider-%d", n), "kind": "desec", "secret": fmt.Sprintf("token-%d", n), "zones": []string{fmt.Sprintf("zone%d.example.org", n)}}
	}, change: func(e *Editor, n int) row { return row{"secret": fmt.Sprintf("another token %d", n)} }},
	{name: "cluster.vip-settings", path: "/cluster/vip-settings", one: true, change: func(e *Editor, n int) row { return row{"vrrp_router_id": 1 + n%255} }},
	{name: "dhcp.reservation", path: "/dhcp/reservations", make: func(e *Editor, n int) row {
		subnet := e.some("/dhcp/subnets")
		if subnet == "" {
			return nil
		}
		network, _, _ := strings.Cut(e.row("/dhcp/subnets", subnet)["cidr"].(string), ".0/")
		return row{"subnet_id": subnet, "mac": fmt.Sprintf("02:00:00:%02x:%02x:%02x", n>>16&255, n>>8&255, n&255), "ip": fmt.Sprintf("%s.%d", network, 2+n%90)}
	}, change: func(e *Editor, n int) row { return row{"hostname": fmt.Sprintf("printer-%d", n)} }},
	{name: "firewall.zone", path: "/firewall/zones", make: func(e *Editor, n int) row { return row{"name": fmt.Sprintf("zone%d", n)} }, change: described("description")},
	{name: "forward-proxy.settings", path: "/forward-proxy/settings", one: true, change: func(e *Editor, n int) row { return row{"cache_mb": 100 + n%100} }},
	{name: "ids.settings", path: "/ids/settings", one: true, change: func(e *Editor, n int) row { return row{"ban_duration": fmt.Sprintf("%dh", 1+n%20)} }},
	{name: "proxy.header", path: "/domains/{parent}/headers", below: "/domains", make: func(e *Editor, n int) row {
		domain := e.some("/domains")
		if domain == "" {
			return nil
		}
		return row{"domain_id": domain, "name": fmt.Sprintf("X-Edit-%d", n), "value": "first"}
	}, change: func(e *Editor, n int) row { return row{"value": fmt.Sprintf("edit %d", n)} }},
	{name: "radius.settings", path: "/radius/settings", one: true, change: func(e *Editor, n int) row { return row{"auth_port": 1900 + n%50} }},
	{name: "system.settings", path: "/system/settings", one: true, change: func(e *Editor, n int) row { return row{"ipv6_enabled": n%2 == 0} }},
	{name: "waf.config", path: "/waf/configs", of: "/domains", change: func(e *Editor, n int) row { return row{"paranoia_level": 1 + n%4, "custom_rules": ""} }},
	{name: "waf.settings", path: "/waf/settings", one: true, change: func(e *Editor, n int) row { return row{"enabled": n%2 == 0} }},
}

func pair(name string) (certificate, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().AddDate(0, 0, -1), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		panic(err)
	}
	kept, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kept}))
}
