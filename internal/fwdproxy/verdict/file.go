package verdict

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Digest identifies the content of a list's file.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16])
}

// Read parses the file of a list. The first line has the layout and the number of entries; each entry has a line:
//
//	layout 0a1b2c3d4e5f6071 1
//	deny 0 dstdomain .example.net
//
// Any error invalidates the whole file.
func Read(content []byte) (*List, error) {
	layout, count := "", -1
	var entries []Entry
	for line := range bytes.Lines(content) {
		text := strings.TrimSuffix(string(line), "\n")
		if strings.HasPrefix(text, "#") {
			continue
		}
		word, rest, _ := strings.Cut(text, " ")
		number, kind, _ := strings.Cut(rest, " ")
		if layout == "" {
			n, err := strconv.Atoi(kind)
			if word != "layout" || number == "" || err != nil {
				return nil, fmt.Errorf("the access list begins with %q", text)
			}
			layout, count, entries = number, n, make([]Entry, 0, max(0, n))
			continue
		}
		e, err := readEntry(word, number, kind)
		if err != nil {
			return nil, fmt.Errorf("%q in the access list: %w", text, err)
		}
		entries = append(entries, e)
	}
	if len(entries) != count {
		return nil, fmt.Errorf("the access list is not whole: %d entries of %d", len(entries), count)
	}
	return New(layout, entries)
}

func readEntry(action, position, rest string) (Entry, error) {
	n, err := strconv.Atoi(position)
	kind, text, _ := strings.Cut(rest, " ")
	switch {
	case action != "allow" && action != "deny":
		return Entry{}, errors.New("neither allows nor denies")
	case err != nil || n < 0:
		return Entry{}, errors.New("has no position")
	}
	return Entry{Type: kind, Value: text, Allow: action == "allow", Position: n}, nil
}
