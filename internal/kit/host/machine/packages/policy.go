package packages

import (
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

var (
	// versionLine begins an entry of apt's version table; three stars mark the installed version.
	versionLine = regexp.MustCompile(`^ (\*\*\*|   ) (\S+) -?\d+`)
	// sourceLine is a source of a version: priority, address, suite and component.
	sourceLine = regexp.MustCompile(`^ {8,}-?\d+ \S+ (\S+)/\S+ `)
)

// parsePolicy reads the output of apt-cache policy. apt leaves out packages that it does not know; they have no versions here.
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
			newer = p.Installed != "" // the table begins with the newest
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

func known(version string) string {
	if version == "(none)" {
		return ""
	}
	return version
}
