package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// part is a third-party component of the package.
type part struct {
	Kind    string // golang or npm
	Name    string
	Version string
	// License is its SPDX identifier.
	License string
	// Text is the license, verbatim; Notice is what its authors require in addition.
	Text, Notice string
	// SHA512 is the checksum of npm's download, in base64.
	SHA512 string
}

// sources are where the parts are found.
type sources struct{ Programs, UI, Modules, Go string }

// parts returns all parts of the package, sorted.
func (s sources) parts() ([]part, error) {
	modules, err := s.goParts()
	if err != nil {
		return nil, err
	}
	packages, err := s.npmParts()
	if err != nil {
		return nil, err
	}
	all := append(modules, packages...)
	slices.SortFunc(all, func(a, b part) int {
		return strings.Compare(a.Kind+" "+a.Name+" "+a.Version, b.Kind+" "+b.Name+" "+b.Version)
	})
	return slices.CompactFunc(all, func(a, b part) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Version == b.Version }), nil
}

// goParts returns the modules in the programs' build information, and Go itself. go.mod lists many more, which are not in the
// programs.
func (s sources) goParts() ([]part, error) {
	programs, err := os.ReadDir(s.Programs)
	if err != nil {
		return nil, err
	}
	var list []part
	for _, p := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(s.Programs, p.Name()))
		if err != nil {
			return nil, err
		}
		std := part{Kind: "golang", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		if std.License, std.Text, std.Notice, err = license(s.Go); err != nil {
			return nil, err
		}
		list = append(list, std)
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			module := part{Kind: "golang", Name: m.Path, Version: m.Version}
			if module.License, module.Text, module.Notice, err = license(filepath.Join(s.Modules, escaped(m.Path)+"@"+escaped(m.Version))); err != nil {
				return nil, fmt.Errorf("%s %s: %w", m.Path, m.Version, err)
			}
			list = append(list, module)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no programs in %s", s.Programs)
	}
	return list, nil
}

// escaped returns a module path as in the module cache, which escapes capital letters.
func escaped(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// npmParts returns the packages in package-lock.json that are not only for development.
func (s sources) npmParts() ([]part, error) {
	content, err := os.ReadFile(filepath.Join(s.UI, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License, Integrity string
			Dev, DevOptional            bool
		}
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	var list []part
	for folder, p := range lock.Packages {
		if folder == "" || p.Dev || p.DevOptional {
			continue
		}
		_, name, _ := strings.Cut("/"+folder, "/node_modules/")
		if at := strings.LastIndex(name, "/node_modules/"); at >= 0 {
			name = name[at+len("/node_modules/"):]
		}
		npm := part{Kind: "npm", Name: name, Version: p.Version, SHA512: strings.TrimPrefix(p.Integrity, "sha512-")}
		found, text, notice, err := license(filepath.Join(s.UI, folder))
		switch {
		case errors.Is(err, errNoLicense) && p.License != "":
			text = "" // the license is named, but its text is not included
		case err != nil:
			return nil, fmt.Errorf("%s %s: %w", name, p.Version, err)
		}
		npm.License, npm.Text, npm.Notice = found, text, notice
		if p.License != "" {
			npm.License = chosen(p.License)
		}
		list = append(list, npm)
	}
	return list, nil
}

// chosen returns the first license of those that a package offers.
func chosen(expression string) string {
	first, _, _ := strings.Cut(strings.Trim(expression, "()"), " OR ")
	return first
}

var (
	errNoLicense = errors.New("there is no license file")
	licenseFile  = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([.-](md|txt|mit|bsd|apache))?$`)
	noticeFile   = regexp.MustCompile(`(?i)^notice(\.(md|txt))?$`)
)

// license reads the license of the part in a folder.
func license(folder string) (name, text, notice string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", "", "", err
	}
	for _, e := range entries {
		isLicense, isNotice := licenseFile.MatchString(e.Name()), noticeFile.MatchString(e.Name())
		if e.IsDir() || !isLicense && !isNotice {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return "", "", "", err
		}
		if plain := tidy(string(content)); isNotice {
			notice = plain
		} else if text == "" {
			text = plain
		} else {
			text += "\n\n" + plain
		}
	}
	if text == "" {
		return "", "", "", fmt.Errorf("%w in %s", errNoLicense, path.Base(folder))
	}
	name, err = recognise(text)
	return name, text, notice, err
}

// tidy removes spaces at the ends of lines and surrounding empty lines.
func tidy(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.ReplaceAll(line, "\f", ""), " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// signs are phrases that identify a license, the more specific ones first.
var signs = []struct{ words, name string }{
	{"SIL Open Font License", "OFL-1.1"},
	{"Mozilla Public License Version 2.0", "MPL-2.0"},
	{"Mozilla Public License, version 2.0", "MPL-2.0"},
	{"Apache License Version 2.0", "Apache-2.0"},
	{"This is free and unencumbered software released into the public domain", "Unlicense"},
	{"Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted. THE SOFTWARE", "0BSD"},
	{"Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted, provided", "ISC"},
	{"Permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted, provided", "ISC"},
	{"to endorse or promote products derived from", "BSD-3-Clause"},
	{"Redistributions in binary form must reproduce the above copyright notice", "BSD-2-Clause"},
	{"Permission is hereby granted, free of charge, to any person obtaining a copy", "MIT"},
}

// recognise identifies a license by its text. A person must review an unknown one before it is shipped.
func recognise(text string) (string, error) {
	flat := strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, s := range signs {
		if strings.Contains(flat, strings.ToLower(s.words)) {
			return s.name, nil
		}
	}
	return "", errors.New("its license is unknown: review it, and add it to signs")
}
