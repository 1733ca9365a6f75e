package lab

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

// account is a user of the gateway's programs, with a group of the same name.
type account struct {
	name, about, home string
	id                int
	memberOf          []string // existing groups that it joins
}

// accounts are those that the package creates on a machine. Debian assigns lower numbers to packages, and higher ones to people.
var accounts = []account{
	{name: host.WAFUser, about: "Gateway (web application firewall)", home: "/var/lib/gateway-waf", id: 59998},
	{name: host.CheckUser, about: "Gateway (checks of configurations)", home: "/", id: 59997},
	// The groups give it access to daemons.
	{name: host.User, about: "Gateway", home: "/var/lib/gateway", id: 59999, memberOf: []string{host.WAFUser, "haproxy", "unbound", "proxy", "systemd-journal"}},
}

// addUsers adds the users of the gateway's programs to the lab's /etc, as the package does on a machine, unless the machine has
// them.
func addUsers() error {
	for _, a := range accounts {
		if _, err := user.Lookup(a.name); err == nil {
			continue
		}
		if err := a.add(); err != nil {
			return err
		}
	}
	return nil
}

func (a account) add() error {
	groups, err := os.ReadFile("/etc/group")
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(groups)) {
		line = strings.TrimSuffix(line, "\n")
		if fields := strings.Split(line, ":"); len(fields) == 4 && slices.Contains(a.memberOf, fields[0]) {
			if fields[3] != "" {
				line += ","
			}
			line += a.name
		}
		lines = append(lines, line)
	}
	lines = append(lines, fmt.Sprintf("%s:x:%d:", a.name, a.id))
	return errors.Join(
		os.WriteFile("/etc/group", []byte(strings.Join(lines, "\n")+"\n"), 0o644),
		appendTo("/etc/passwd", fmt.Sprintf("%s:x:%d:%d:%s:%s:/usr/sbin/nologin\n", a.name, a.id, a.id, a.about, a.home)),
	)
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
