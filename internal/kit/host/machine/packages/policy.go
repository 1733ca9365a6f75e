package packages

import (
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

var (
	// versionLine begins an entry of apt's table of versions; three stars mark the installed one.
	versionLine = regexp.MustCompile(`^ (\*\*\*|   ) (\S+) -?\d+`)
	// sourceLine is where a version comes from: its priority, the address, and behind it the suite with the component.
	sourceLine = regexp.MustCompile(`^ {8,}-?\d+ \S+ (\S+)/\S+ `)
)

// parsePolicy reads what apt-cache policy says about packages. apt leaves out those that it does not know; they have no versions.
func parsePolicy(text string, names []string) []host.PackageVersion {
	list := make([]host.PackageVersion, len(names))
	for i, name := range names {
		list[i].Name = name
	}
	var p *host.PackageVersion
	newer, version := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutSuffix(line, ":"); ok && !strings.HasPrefix(line, " ") {
			p = nil
			if i := slices.Index(names, name); i >= 0 {
				p = &list[i]
			}
			continue
		}
		if p == nil {
			continue
		}
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case field == "Installed":
			p.Installed = known(value)
		case field == "Candidate":
			p.Available = known(value)
		case field == "Version table:":
			newer = p.Installed != "" // the newest is first
		}
		if entry := versionLine.FindStringSubmatch(line); entry != nil {
			if version = entry[2]; entry[1] == "***" {
				newer = false
			}
			if newer {
				p.Newer = append(p.Newer, version)
			}
		}
		if source := sourceLine.FindStringSubmatch(line); source != nil && newer && strings.HasSuffix(source[1], "-security") {
			p.Security = true
		}
	}
	return list
}

// known is a version, or nothing where apt says that there is none.
func known(version string) string {
	if version == "(none)" {
		return ""
	}
	return version
}
