package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// common are the licenses whose text is on every Debian.
var common = map[string]bool{"Apache-2.0": true, "MPL-2.0": true}

// notices returns the machine-readable debian/copyright: one paragraph for each part, followed by each license text once.
func notices(parts []part) []byte {
	var b bytes.Buffer
	b.WriteString("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n" +
		"Upstream-Name: gateway\n" +
		"Comment: The programs are linked from the Go modules below, and gateway-api has the console, which is\n" +
		" made of the npm packages below. The bill of materials beside this file lists them for machines.\n\n" +
		"Files: *\nCopyright: the authors of Gateway\nLicense: Gateway\n The terms for the gateway itself are those that you received it under.\n")
	var texts licenses
	for _, p := range parts {
		fmt.Fprintf(&b, "\nFiles: %s/%s@%s/*\n", p.Kind, p.Name, p.Version)
		field(&b, "Copyright", holders(p))
		fmt.Fprintf(&b, "License: %s\n", texts.add(p))
		if p.Notice != "" {
			field(&b, "Comment", "NOTICE:\n"+p.Notice)
		}
	}
	for _, l := range texts {
		fmt.Fprintf(&b, "\nLicense: %s\n", l.name)
		indent(&b, l.text)
	}
	return b.Bytes()
}

// licenses are the texts of the parts' licenses, each under its own name.
type licenses []struct{ spdx, name, text string }

// add returns the name of a part's license text.
func (l *licenses) add(p part) string {
	text := terms(p.Text)
	switch {
	case common[p.License]:
		text = "On Debian systems, the text is in /usr/share/common-licenses/" + p.License + "."
	case text == "":
		text = "The package names its license and does not have the text."
	}
	flat, same := strings.Join(strings.Fields(text), " "), 0
	for _, known := range *l {
		if known.spdx == p.License {
			if strings.Join(strings.Fields(known.text), " ") == flat {
				return known.name
			}
			same++
		}
	}
	name := p.License
	if same > 0 {
		name = fmt.Sprintf("%s-text%d", name, same+1)
	}
	*l = append(*l, struct{ spdx, name, text string }{p.License, name, text})
	return name
}

// holderLine matches a line that names a copyright holder.
var holderLine = regexp.MustCompile(`(?i)copyright\W*(\(c\)|©|\d{4})|^\W*(\(c\)|©) *\d{4}|^copyright (the )?.* (authors|contributors)`)

// bare strips the markup of headings and quotations from a line.
func bare(line string) string { return strings.TrimLeft(strings.TrimSpace(line), "*#> ") }

// holders returns the lines of the license that name copyright holders.
func holders(p part) string {
	var list []string
	for line := range strings.Lines(p.Text) {
		if line = bare(line); holderLine.MatchString(line) && !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	if len(list) == 0 {
		return "the authors of " + p.Name
	}
	return strings.Join(list, "\n")
}

// terms returns the license without the lines that name its holders.
func terms(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !holderLine.MatchString(bare(line)) {
			b.WriteString(line)
		}
	}
	return strings.Trim(b.String(), "\n")
}

// field writes a field whose value may have several lines.
func field(b *bytes.Buffer, name, value string) {
	first, rest, more := strings.Cut(value, "\n")
	fmt.Fprintf(b, "%s: %s\n", name, strings.TrimSpace(first))
	if more {
		indent(b, rest)
	}
}

// indent writes the continuation lines of a field; an empty line becomes a dot.
func indent(b *bytes.Buffer, text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); strings.TrimSpace(line) == "" {
			line = "."
		}
		fmt.Fprintf(b, " %s\n", line)
	}
}

// component is an entry of a CycloneDX document.
type component struct {
	Type     string  `json:"type"`
	Ref      string  `json:"bom-ref"`
	Name     string  `json:"name"`
	Version  string  `json:"version"`
	Licenses []named `json:"licenses,omitempty"`
	Hashes   []hash  `json:"hashes,omitempty"`
	PURL     string  `json:"purl,omitempty"`
}

type named struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// materials returns the bill of materials, as CycloneDX.
func materials(parts []part, version string, date time.Time) ([]byte, error) {
	type metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	bill := struct {
		Format      string      `json:"bomFormat"`
		SpecVersion string      `json:"specVersion"`
		Version     int         `json:"version"`
		Metadata    metadata    `json:"metadata"`
		Components  []component `json:"components"`
	}{Format: "CycloneDX", SpecVersion: "1.5", Version: 1, Metadata: metadata{
		date.Format(time.RFC3339), component{Type: "application", Ref: "gateway", Name: "gateway", Version: version, PURL: "pkg:deb/gateway@" + url.PathEscape(version)},
	}}
	for _, p := range parts {
		c := component{Type: "library", Name: p.Name, Version: p.Version, PURL: purl(p)}
		c.Ref = c.PURL
		var l named
		l.License.ID = p.License
		c.Licenses = append(c.Licenses, l)
		if p.SHA512 != "" {
			sum, err := base64.StdEncoding.DecodeString(p.SHA512)
			if err != nil {
				return nil, fmt.Errorf("%s: its checksum: %w", p.Name, err)
			}
			c.Hashes = append(c.Hashes, hash{"SHA-512", hex.EncodeToString(sum)})
		}
		bill.Components = append(bill.Components, c)
	}
	content, err := json.MarshalIndent(bill, "", "  ")
	return append(content, '\n'), err
}

// purl returns the package URL of a part.
func purl(p part) string {
	words := strings.Split(p.Name, "/")
	for i, w := range words {
		words[i] = strings.ReplaceAll(url.PathEscape(w), "@", "%40")
	}
	return "pkg:" + p.Kind + "/" + strings.Join(words, "/") + "@" + url.PathEscape(p.Version)
}
