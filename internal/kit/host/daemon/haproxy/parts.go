package haproxy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon/grammar"
	"edge.internal/gateway/internal/kit/parts"
)

// The frame of Config: everything before the mark, and the last section.
const (
	markStart   = "global\n  description "
	lastSection = "backend gateway_unavailable\n"
)

var (
	mark        = regexp.MustCompile(`^global\n  description [0-9a-f]+\n$`)
	siteBackend = regexp.MustCompile(`^backend gateway_backend_[0-9a-f-]{36}\n(?:  [^ \n].*\n)*$`)
)

// ofBackend are the directives of a backend for sites.
var ofBackend = []string{"balance", "hash-type", "http-check", "option", "server", "timeout"}

// Split divides the text of Config into its parts: what comes before the mark, the mark, each backend for sites, and the last section.
func Split(text string) (parts.Text, error) {
	start := strings.Index(text, "\n"+markStart) + 1
	rest, ok := strings.CutSuffix(text, "\n"+lastSection)
	if start == 0 || !ok || len(rest) < start {
		return nil, errors.New("the text is not divided into parts")
	}
	t := parts.Text{parts.Of([]byte(text[:start]))}
	for rest = rest[start:] + "\n"; rest != ""; {
		end := sectionEnd(rest)
		if part := rest[:end]; !mark.MatchString(part) && !siteBackend.MatchString(part) {
			return nil, fmt.Errorf("%.100q is not known", part)
		}
		t = append(t, parts.Of([]byte(rest[:end])))
		rest = rest[end:]
	}
	return append(t, parts.Of([]byte(lastSection))), nil
}

// sectionEnd returns where the first section of a text ends.
func sectionEnd(text string) int {
	for end := 0; ; {
		next := strings.IndexByte(text[end:], '\n')
		if next < 0 {
			return len(text)
		}
		if end += next + 1; end == len(text) || text[end] != ' ' {
			return end
		}
	}
}

// admitPart accepts the mark, or a backend for sites.
func admitPart(part string) error {
	if mark.MatchString(part) {
		return nil
	}
	if !siteBackend.MatchString(part) {
		return fmt.Errorf("%.100q is not known", part)
	}
	_, directives, _ := strings.Cut(part, "\n")
	return grammar.Lines(directives, grammar.AnyLength, func(words []string) error {
		words, err := directive(words)
		if err == nil && len(words) > 0 && !slices.Contains(ofBackend, words[0]) {
			err = fmt.Errorf("unexpected %q", words[0])
		}
		return err
	})
}
