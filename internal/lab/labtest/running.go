package labtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
)

// volatile matches what changes in the kernel without a change of configuration, or with every boot.
var volatile = regexp.MustCompile(`(?m)packets \d+ bytes \d+| timeout [0-9smhd]+| expires [0-9smhd]+| handle \d+|valid_lft \S+|preferred_lft \S+|^\d+: |@if\d+|([0-9a-f]{2}:){5}[0-9a-f]{2}|fe80::[0-9a-f:]*[0-9a-f]`)

// part matches a chain or a set of the packet filter. Their order does not matter; that of the rules within them does.
var part = regexp.MustCompile(`(?ms)^\t(?:chain|set|map) .*?^\t}\n+`)

// rendered are the files that the gateway writes for its daemons and for itself. Not every daemon has files.
var rendered = []string{
	"/etc/haproxy/*", "/etc/nftables.d/*", "/etc/gateway/*", "/etc/wireguard/*", "/etc/systemd/network/*", "/etc/chrony/conf.d/*", "/etc/kea/gateway/*",
	"/etc/unbound/gateway.conf", "/etc/unbound/gateway.conf.d/*", "/etc/squid/*", "/etc/freeradius/gateway/*", "/etc/keepalived/*",
}

// linkLocal matches the kernel's own routes to its link-local addresses. It adds them once it has made sure that the address is not a duplicate,
// which an interface without another end may wait for.
var linkLocal = regexp.MustCompile(`^(?:anycast|local) fe80::\S* dev \S+ table local `)

// Running describes what a gateway runs with: the kernel's state and the files. It does not change unless the configuration does.
// run runs a command on the gateway.
func Running(run func(argv ...string) string) string {
	var all strings.Builder
	for _, argv := range [][]string{{"nft", "-s", "list", "ruleset"}, {"ip", "-br", "link"}, {"ip", "-br", "address"}, {"ip", "route", "show", "table", "all"}, {"ip", "-6", "route", "show", "table", "main"},
		{"ip", "rule"}, {"ip", "-6", "rule"}, {"wg", "show", "all", "dump"}} {
		fmt.Fprintf(&all, "# %s\n", strings.Join(argv, " "))
		output := run(argv...) + "\n"
		if argv[0] == "wg" {
			output = settled(output)
		}
		// The order of tables, addresses and routes does not matter either.
		var parts []string
		for line := range strings.Lines(part.ReplaceAllString(output, "")) {
			if linkLocal.MatchString(line) {
				continue
			}
			parts = append(parts, strings.Join(strings.Fields(volatile.ReplaceAllString(line, "")), " ")) // columns are as wide as what was in them
		}
		for _, chain := range part.FindAllString(output, -1) {
			if strings.HasPrefix(chain, "\tset "+crowdsec.SparedSet+" {") {
				continue // it contains the addresses of logged-in users
			}
			parts = append(parts, strings.TrimSpace(volatile.ReplaceAllString(chain, "")))
		}
		slices.Sort(parts)
		all.WriteString(strings.Join(parts, "\n") + "\n")
	}
	argv := []string{"find", "/etc", "-type", "f", "("}
	for i, path := range rendered {
		if i > 0 {
			argv = append(argv, "-o")
		}
		argv = append(argv, "-path", path)
	}
	files := strings.Split(run(append(argv, ")", "-exec", "sha256sum", "{}", "+")...), "\n")
	path := func(line string) string { _, path, _ := strings.Cut(line, " "); return path }
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(path(a), path(b)) })
	all.WriteString(strings.Join(files, "\n"))
	return all.String()
}

// settled strips the endpoints, times and counters of peers from a WireGuard dump.
func settled(dump string) string {
	lines := strings.Split(dump, "\n")
	for i, line := range lines {
		if f := strings.Split(line, "\t"); len(f) == 9 {
			lines[i] = strings.Join([]string{f[0], f[1], f[2], f[4], f[8]}, " ")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
