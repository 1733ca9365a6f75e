package mask

import (
	"regexp"
	"strings"
)

var (
	// jwt matches the shape of a signed or encrypted token: base64 parts separated by dots, the first of which begins a JSON object. It
	// need not be complete.
	jwt = regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)*`)
	// linkWords match a path segment that announces a secret sent to someone in the next segment.
	linkWords = regexp.MustCompile(`(?i)(?:^|[-_.])(?:reset|invit\w*|verif\w*|confirm\w*|activat\w*|unsubscribe|recover\w*|magic|share)(?:$|[-_.])`)
	uuid      = regexp.MustCompile(`(?i)^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$`)
	opaque    = regexp.MustCompile(`^(?:[\w~=+-]|%[0-9A-Fa-f]{2})+$`)
)

// JWTs finds signed tokens anywhere. It returns their ranges, in order and without overlap.
func JWTs(s string) [][2]int {
	var found [][2]int
	for _, at := range jwt.FindAllStringIndex(s, -1) {
		found = append(found, [2]int{at[0], at[1]})
	}
	return found
}

// PathTokens finds secret segments of a path: what follows a word such as reset, unless it is itself a word, and what can only be a
// token. Numbers, words and their combinations, file names and UUIDs are not secrets. It ignores the query.
func PathTokens(s string) [][2]int {
	if end := strings.IndexAny(s, "?# "); end >= 0 {
		s = s[:end]
	}
	var found [][2]int
	before := ""
	for from := 0; from < len(s); {
		segment, _, _ := strings.Cut(s[from:], "/")
		if segment != "" && (random(segment) || (linkWords.MatchString(before) || Secret(before)) && sent(segment)) {
			found = append(found, [2]int{from, from + len(segment)})
		}
		before = segment
		from += len(segment) + 1
	}
	return found
}

// The minimum of a token: its length, and the percentage of changes between capitals, small letters and digits. In random text about half
// are changes; names in camel case have far fewer, and no digits.
const (
	shortestToken           = 20
	changes, changesNoDigit = 20, 40
	shortestSent            = 6
)

// random reports whether a segment looks like a token on its own.
func random(segment string) bool {
	if len(segment) < shortestToken || !opaque.MatchString(segment) || uuid.MatchString(segment) {
		return false
	}
	turns, digits, last := 0, 0, byte(0)
	for i := range len(segment) {
		kind := kindOf(segment[i])
		if kind == '0' {
			digits++
		}
		if kind != 0 && last != 0 && kind != last {
			turns++
		}
		last = kind
	}
	least := changes
	if digits < 2 {
		least = changesNoDigit
	}
	return turns*100 >= least*len(segment)
}

// sent reports whether a segment after a word that announces a secret is one: it has digits and is not made of words and numbers, or it
// is long.
func sent(segment string) bool {
	if len(segment) < shortestSent || !opaque.MatchString(segment) {
		return false
	}
	if len(segment) >= shortestToken && !strings.ContainsAny(segment, "-_") {
		return true
	}
	words, digits := false, false
	for _, part := range strings.FieldsFunc(segment, func(r rune) bool { return r == '-' || r == '_' }) {
		mixed := false
		for i := range len(part) {
			isDigit := digit(part[i])
			digits = digits || isDigit
			mixed = mixed || isDigit != digit(part[0])
		}
		if mixed {
			return true
		}
		words = words || !digit(part[0])
	}
	return digits && !words
}

// kindOf distinguishes capitals, small letters and digits; anything else is 0.
func kindOf(c byte) byte {
	switch {
	case digit(c):
		return '0'
	case c >= 'a' && c <= 'z':
		return 'a'
	case c >= 'A' && c <= 'Z':
		return 'A'
	}
	return 0
}
