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

// userID is the number of the gateway's user and group in a lab. Debian gives packages lower ones, and people higher ones.
const userID = 59999

// memberOf are the groups that give the gateway's user what it asks daemons for.
var memberOf = []string{"haproxy", "unbound", "proxy", "systemd-journal"}

// addUser adds the gateway's user to the lab's own lists, as the package does on a machine, unless the machine has it already.
func addUser() error {
	if _, err := user.Lookup(host.User); err == nil {
		return nil
	}
	groups, err := os.ReadFile("/etc/group")
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(groups)) {
		line = strings.TrimSuffix(line, "\n")
		if fields := strings.Split(line, ":"); len(fields) == 4 && slices.Contains(memberOf, fields[0]) {
			if fields[3] != "" {
				line += ","
			}
			line += host.User
		}
		lines = append(lines, line)
	}
	lines = append(lines, fmt.Sprintf("%s:x:%d:", host.User, userID))
	return errors.Join(
		os.WriteFile("/etc/group", []byte(strings.Join(lines, "\n")+"\n"), 0o644),
		appendTo("/etc/passwd", fmt.Sprintf("%s:x:%d:%d:Gateway:/var/lib/gateway:/usr/sbin/nologin\n", host.User, userID, userID)),
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
