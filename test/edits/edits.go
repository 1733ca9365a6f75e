// Package edits makes random change sets of what people configure, for tests that take them back.
package edits

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Call asks a gateway's API. The answer is its status, the change set that it made, if any, and its data.
type Call func(method, path string, body any) (status int, set string, data []byte, err error)

// Operation is one operation of a change set.
type Operation struct {
	Kind string         `json:"kind"`
	Verb string         `json:"verb"`
	ID   string         `json:"id,omitempty"`
	Body map[string]any `json:"body,omitempty"`
}

type row = map[string]any

// kind is what is edited. make is the body of a new row, with a number that no other has; change is an update. Without make, rows are neither
// created nor deleted; one is the only row of its kind. Where free is set, only rows that it likes are touched.
type kind struct {
	name, path   string
	make, change func(e *Editor, n int) row
	one          bool
	free         func(x row) bool
}

func described(field string) func(*Editor, int) row {
	return func(_ *Editor, n int) row { return row{field: fmt.Sprintf("edit %d", n)} }
}

var kinds = []kind{
	{name: "firewall.address-object", path: "/firewall/address-objects", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("object-%d", n), "kind": "host", "value": e.address(n)}
	}, change: func(e *Editor, n int) row { return row{"value": e.address(n)} }},
	{name: "firewall.service", path: "/firewall/services", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("service-%d", n), "protocol": e.one("tcp", "udp"), "port_start": 1024 + n%60000}
	}, change: func(e *Editor, n int) row { return row{"port_start": 1024 + n%60000} }},
	{name: "firewall.rule", path: "/firewall/rules", make: func(e *Editor, n int) row {
		body := row{"name": fmt.Sprintf("rule %d", n), "src_zone": e.one("lan", "wan", "any"), "dst_zone": e.one("wan", "self"), "action": e.one("accept", "drop", "reject")}
		if id := e.some("/firewall/services"); id != "" {
			body["service_object_id"] = id
		}
		return body
	}, change: func(e *Editor, n int) row {
		return row{"action": e.one("accept", "drop", "reject"), "enabled": n%2 == 0, "comment": fmt.Sprintf("edit %d", n)}
	}},
	{name: "firewall.nat-rule", path: "/nat-rules", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("forward %d", n), "kind": "dnat", "in_zone": "wan", "out_zone": "any", "protocol": "tcp", "dst_port": 10000 + n%50000, "target_address": "10.10.0.2"}
	}, change: func(e *Editor, n int) row { return row{"enabled": n%2 == 0, "comment": fmt.Sprintf("edit %d", n)} }},
	{name: "dns.zone", path: "/dns/zones", make: func(e *Editor, n int) row { return row{"name": fmt.Sprintf("zone%d.example.net", n)} }, change: described("description")},
	{name: "dns.record", path: "/dns/records", make: func(e *Editor, n int) row {
		zone := e.some("/dns/zones")
		if zone == "" {
			return nil
		}
		return row{"zone_id": zone, "name": fmt.Sprintf("host%d", n), "type": "A", "value": e.address(n)}
	}, change: func(e *Editor, n int) row { return row{"value": e.address(n)} }},
	{name: "ntp.pool", path: "/ntp/pools", make: func(e *Editor, n int) row {
		return row{"kind": "pool", "address": fmt.Sprintf("time%d.example.net", n)}
	}, change: func(e *Editor, n int) row { return row{"iburst": n%2 == 0, "maxpoll": 7 + n%4} }},
	{name: "proxy.backend", path: "/backends", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("backend-%d", n), "scheme": "http", "health_check_enabled": false}
	}, change: func(e *Editor, n int) row { return row{"lb_algorithm": e.one("roundrobin", "leastconn", "source")} }},
	{name: "proxy.domain", path: "/domains", make: func(e *Editor, n int) row {
		backend := e.some("/backends")
		if backend == "" {
			return nil
		}
		return row{"name": fmt.Sprintf("site%d.example.net", n), "backend_id": backend, "http_to_https": false}
	}, change: func(e *Editor, n int) row { return row{"http_to_https": n%2 == 0} }},
	{name: "radius.client", path: "/radius/clients", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("switch-%d", n), "address": e.address(n), "secret": fmt.Sprintf("shared secret %d", n)}
	}, change: func(e *Editor, n int) row { return row{"secret": fmt.Sprintf("another secret %d", n)} }},
	{name: "forward-proxy.acl", path: "/forward-proxy/acls", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("acl-%d", n), "type": "src", "value": e.address(n), "action": e.one("allow", "deny")}
	}, change: func(e *Editor, n int) row { return row{"action": e.one("allow", "deny")} }},
	{name: "network.route", path: "/routes", make: func(e *Editor, n int) row {
		return row{"destination": fmt.Sprintf("203.0.%d.0/24", n%250), "gateway": "198.51.100.2"}
	}, change: described("comment")},
	{name: "firewall.address-group", path: "/firewall/address-groups", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("addresses-%d", n), "members": e.members("/firewall/address-objects")}
	}, change: func(e *Editor, n int) row { return row{"members": e.members("/firewall/address-objects")} }},
	{name: "firewall.service-group", path: "/firewall/service-groups", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("services-%d", n), "members": e.members("/firewall/services")}
	}, change: described("description")},
	{name: "proxy.server", path: "/backend-servers", make: func(e *Editor, n int) row {
		backend := e.some("/backends")
		if backend == "" {
			return nil
		}
		return row{"backend_id": backend, "name": fmt.Sprintf("server-%d", n), "address": e.address(n), "port": 8000 + n%1000}
	}, change: func(e *Editor, n int) row { return row{"weight": n % 200, "active": n%3 > 0} }},
	{name: "proxy.routing-rule", path: "/routing-rules", make: func(e *Editor, n int) row {
		domain, backend := e.some("/domains"), e.some("/backends")
		if domain == "" || backend == "" {
			return nil
		}
		return row{"domain_id": domain, "backend_id": backend, "path_prefix": fmt.Sprintf("/part%d", n)}
	}, change: func(e *Editor, n int) row { return row{"strip_prefix": n%2 == 0} }},
	{name: "radius.user", path: "/radius/users", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("person-%d", n), "password": fmt.Sprintf("a password %d", n)}
	}, change: func(e *Editor, n int) row { return row{"active": n%2 == 0} }},
	{name: "tunnel.interface", path: "/tunnel/interfaces", make: func(e *Editor, n int) row {
		return row{"name": fmt.Sprintf("wg%d", n), "address_cidr": fmt.Sprintf("10.%d.%d.1/24", 200+n>>8&31, n&255), "listen_port": 20000 + n%40000}
	}, change: func(e *Editor, n int) row { return row{"endpoint_host": fmt.Sprintf("vpn%d.example.net", n)} }},
	{name: "tunnel.peer", path: "/peers", make: func(e *Editor, n int) row {
		tunnel := e.some("/tunnel/interfaces")
		if tunnel == "" {
			return nil
		}
		return row{"interface_id": tunnel, "name": fmt.Sprintf("peer-%d", n)}
	}, change: func(e *Editor, n int) row { return row{"keepalive": n % 100, "active": n%3 > 0} }},
	{name: "dhcp.subnet", path: "/dhcp/subnets", make: func(e *Editor, n int) row {
		network := fmt.Sprintf("10.%d.%d.", 150+n>>8&31, n&255)
		return row{"interface": "lan0", "cidr": network + "0/24", "range_start": network + "100", "range_end": network + "200", "active": false}
	}, change: func(e *Editor, n int) row { return row{"lease_seconds": 600 + n%600} }},
	{name: "network.interface", path: "/network-interfaces", change: described("description")},
	{name: "network.ip-address", path: "/ip-addresses", make: func(e *Editor, n int) row {
		return row{"interface_id": e.some("/network-interfaces"), "address": e.address(n), "prefix": 32}
	}, change: described("description"), free: func(x row) bool { return x["prefix"] == 32.0 }},
	{name: "ntp.settings", path: "/ntp/settings", one: true, change: func(e *Editor, n int) row { return row{"rtcsync": n%2 == 0} }},
	{name: "dns.settings", path: "/dns/settings", one: true, change: func(e *Editor, n int) row { return row{"cache_max_ttl": 3600 + n%3600} }},
	{name: "dhcp.settings", path: "/dhcp/settings", one: true, change: func(e *Editor, n int) row { return row{"default_lease_seconds": 600 + n%600} }},
	{name: "alert.settings", path: "/alerts/settings", one: true, change: func(e *Editor, n int) row { return row{"cert_warning_days": 15 + n%15} }},
}

// Path is where the rows of a kind are, or the only one is.
type Path struct {
	Kind, Path string
	One        bool
}

// Paths are those of everything that is edited.
func Paths() []Path {
	list := make([]Path, len(kinds))
	for i, k := range kinds {
		list[i] = Path{k.name, k.path, k.one}
	}
	return list
}

// Editor makes random change sets.
type Editor struct {
	*rand.Rand
	call Call
	n    int
	rows map[string][]string // ids by path
	// Kernel, where there is one, is what the kernel has.
	Kernel func() string
}

// New makes an editor, whose sets are the same for the same seed and the same state.
func New(seed uint64, call Call) *Editor {
	return &Editor{Rand: rand.New(rand.NewPCG(seed, 1)), call: call}
}

func (e *Editor) one(choices ...string) string { return choices[e.IntN(len(choices))] }

func (e *Editor) address(n int) string {
	return fmt.Sprintf("10.%d.%d.%d", 20+n>>16&127, n>>8&255, 1+n&127)
}

func (e *Editor) some(path string) string {
	if len(e.rows[path]) == 0 {
		return ""
	}
	return e.rows[path][e.IntN(len(e.rows[path]))]
}

// members are up to three rows.
func (e *Editor) members(path string) []string {
	list := []string{}
	for range e.IntN(4) {
		if id := e.some(path); id != "" && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// Next is another change set.
func (e *Editor) Next() ([]Operation, error) {
	if err := e.look(); err != nil {
		return nil, err
	}
	var set []Operation
	touched := map[string]bool{}
	for want := 1 + e.IntN(5); len(set) < want; {
		k := kinds[e.IntN(len(kinds))]
		e.n++
		id := e.some(k.path)
		switch choice := e.IntN(4); {
		case k.one && !touched[k.name]:
			touched[k.name] = true
			set = append(set, Operation{Kind: k.name, Verb: "update", Body: k.change(e, e.n)})
		case k.one:
		case k.make == nil && !touched[id]:
			touched[id] = true
			set = append(set, Operation{Kind: k.name, Verb: "update", ID: id, Body: k.change(e, e.n)})
		case k.make == nil:
		case choice < 2 || id == "" || touched[id]:
			if body := k.make(e, e.n); body != nil {
				set = append(set, Operation{Kind: k.name, Verb: "create", Body: body})
			}
		case choice == 2:
			touched[id] = true
			set = append(set, Operation{Kind: k.name, Verb: "update", ID: id, Body: k.change(e, e.n)})
		default:
			touched[id] = true
			e.rows[k.path] = slices.DeleteFunc(e.rows[k.path], func(x string) bool { return x == id })
			set = append(set, Operation{Kind: k.name, Verb: "delete", ID: id})
		}
	}
	return set, nil
}

func (e *Editor) look() error {
	e.rows = map[string][]string{}
	for _, k := range kinds {
		list, err := e.list(k)
		if err != nil {
			return err
		}
		for _, x := range list {
			if builtin, _ := x["builtin"].(bool); !builtin && (k.free == nil || k.free(x)) {
				e.rows[k.path] = append(e.rows[k.path], x["id"].(string))
			}
		}
	}
	return nil
}

// list is the rows of a kind.
func (e *Editor) list(k kind) (list []row, err error) {
	if k.one {
		list = []row{{}}
		err = e.get(k.path, &list[0])
		return list, err
	}
	err = e.get(k.path, &list)
	return list, err
}

func (e *Editor) get(path string, into any) error {
	status, _, data, err := e.call("GET", path, nil)
	switch {
	case err != nil:
		return err
	case status != 200:
		return fmt.Errorf("GET %s answers %d: %s", path, status, data)
	}
	return json.Unmarshal(data, into)
}

// State is all rows but for their times, the files that they mean, and what the kernel has.
func (e *Editor) State() (string, error) {
	var all strings.Builder
	for _, k := range kinds {
		list, err := e.list(k)
		if err != nil {
			return "", err
		}
		for _, x := range list {
			timeless(x)
			b, err := json.Marshal(x)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&all, "%s %s\n", k.name, b)
		}
	}
	var components []struct{ Name string }
	if err := e.get("/system/components", &components); err != nil {
		return "", err
	}
	for _, c := range components {
		preview, err := e.preview(c.Name)
		if err != nil {
			return "", err
		}
		for _, f := range preview.Files {
			fmt.Fprintf(&all, "%s\n%s\n", f.Path, f.Content)
		}
	}
	if e.Kernel != nil {
		all.WriteString(e.Kernel())
	}
	return all.String(), nil
}

// timeless takes the times out of a row, and out of those that it shows.
func timeless(x any) {
	switch x := x.(type) {
	case row:
		delete(x, "created_at")
		delete(x, "updated_at")
		for _, v := range x {
			timeless(v)
		}
	case []any:
		for _, v := range x {
			timeless(v)
		}
	}
}

type preview struct {
	Files []struct{ Path, Content string }
	Diff  string
}

// preview is the files of a component. Those of one that was changed while it runs are written a moment later.
func (e *Editor) preview(component string) (p preview, err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		p = preview{}
		if err := e.get("/system/config-preview?generator="+component, &p); err != nil || p.Diff == "" {
			return p, err
		}
	}
	return p, fmt.Errorf("what is live is not what is stored:\n%s", p.Diff)
}

// Revert makes a random change set, takes it back, and tells what is not as it was: nothing, as a rule. Sets that the gateway refuses are
// passed over. Every other one is brought about again by taking back its revert, so that there is more and more to change.
func (e *Editor) Revert() error {
	before, err := e.State()
	if err != nil {
		return err
	}
	set, id, err := e.apply()
	if err != nil {
		return err
	}
	after, err := e.State()
	if err != nil {
		return fmt.Errorf("after %v: %w", set, err)
	}
	back, err := e.takeBack(id)
	if err != nil {
		return fmt.Errorf("taking back %v: %w", set, err)
	}
	now, err := e.State()
	if err != nil {
		return fmt.Errorf("after taking back %v: %w", set, err)
	}
	if now != before {
		return fmt.Errorf("%v leaves\n%s\nof\n%s", set, now, before)
	}
	if e.IntN(2) == 0 {
		return nil
	}
	if _, err := e.takeBack(back); err != nil {
		return fmt.Errorf("bringing %v about again: %w", set, err)
	}
	if now, err = e.State(); err == nil && now != after {
		err = fmt.Errorf("%v again leaves\n%s\nof\n%s", set, now, after)
	}
	return err
}

func (e *Editor) apply() (set []Operation, id string, err error) {
	for range 100 {
		if set, err = e.Next(); err != nil {
			return nil, "", err
		}
		status, id, data, err := e.call("POST", "/change-sets", map[string]any{"operations": set})
		switch {
		case err != nil:
			return set, "", err
		case status != 200 && status != 404 && status != 409: // one of the rows is in use, or has gone with another
			return set, "", fmt.Errorf("%v: %d %s", set, status, data)
		case id != "":
			return set, id, nil
		}
	}
	return nil, "", errors.New("a hundred sets in a row are refused or change nothing")
}

func (e *Editor) takeBack(id string) (string, error) {
	status, back, data, err := e.call("POST", "/change-sets/"+id+"/revert", nil)
	if err == nil && (status != 200 || back == "") {
		err = fmt.Errorf("%d %s", status, data)
	}
	return back, err
}
