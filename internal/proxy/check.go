package proxy

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
)

// check asks HAProxy whether it accepts the staged files.
func (r *Room) check(ctx context.Context, files []host.File) error {
	staged := slices.Clone(files)
	for i := range staged {
		staged[i] = staged[i].Whole()
	}
	_, err := r.Host.Run(ctx, haproxy.Check, host.Input{Staged: staged})
	return err
}

// reduce leaves out what HAProxy has accepted before: backends of rows, entries of maps, and certificates. Whether HAProxy accepts one of
// these depends on nothing but its own text and the settings before the first frontend: nothing refers to a backend by name, and neither
// entries nor certificates refer to anything. Empty lines replace what is left out, because HAProxy's messages contain line numbers.
func reduce(was *Config, accepted []host.File, now *Config, files []host.File) []host.File {
	if was.Features != now.Features || settings(accepted) != settings(files) {
		return files
	}
	before := make(map[host.Place]host.File, len(accepted))
	for _, f := range accepted {
		before[f.Place] = f
	}
	needed := map[string]bool{defaultCertificate: true}
	for _, f := range files {
		if name, ok := certificateName(f.Place); ok && !f.Same(before[f.Place]) {
			needed[name] = true
		}
	}
	reduced := make([]host.File, 0, len(files))
	for _, f := range files {
		old := before[f.Place]
		switch {
		case f.Place == haproxy.Config:
			f.Content, f.Parts = f.Parts.News(old.Parts), nil
		case slices.Contains(mapPlaces, f.Place):
			f.Content = newLines(old.Content, f.Content, func(string) bool { return false })
		case f.Place == haproxy.CertificateList, f.Place == haproxy.ManagementList:
			f.Content = newLines(old.Content, f.Content, func(line string) bool { return needed[listed(line)] })
			for line := range strings.Lines(string(f.Content)) {
				needed[listed(line)] = true
			}
		}
		reduced = append(reduced, f)
	}
	return slices.DeleteFunc(reduced, func(f host.File) bool {
		name, ok := certificateName(f.Place)
		return ok && !needed[name]
	})
}

// settings returns what haproxy.cfg has before the first frontend.
func settings(files []host.File) string {
	text, _, _ := strings.Cut(files[0].Parts[0].String(), "\nfrontend ")
	return text
}

// newLines replaces the lines that another text has as well by empty ones, except those to keep.
func newLines(was, now []byte, keep func(line string) bool) []byte {
	known := make(map[string]bool, bytes.Count(was, []byte("\n")))
	for line := range strings.Lines(string(was)) {
		known[line] = true
	}
	var b bytes.Buffer
	for line := range strings.Lines(string(now)) {
		if known[line] && !keep(line) {
			line = "\n"
		}
		b.WriteString(line)
	}
	return b.Bytes()
}

// certificateName returns the name of a certificate's file in HAProxy. ok is false for other files.
func certificateName(place host.Place) (name string, ok bool) {
	at := place.Path()
	return "certificates/" + path.Base(at), path.Base(path.Dir(at)) == "certificates"
}

// listed returns the file of a line in a list of certificates.
func listed(line string) string {
	file, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	return file
}
