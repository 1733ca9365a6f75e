// Package mask hides secrets in stored requests.
package mask

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
)

// SecretWords matches the part of a name that marks the value as a secret, or as a one-time code. An author is not a secret, and a short
// word only counts as a separate word: otp in smsOtp and otp_code, but not in hotpink.
const SecretWords = `(?:auth(?:ori[sz]|enti|[_\-\d]|\b)|cookie|pass|pwd|token|secret|key|credential|session|jwt|` +
	`(?:sms|mail|verify|verification|confirm|confirmation|security|login|access|activation|recovery|backup|time)[_-]?code|` +
	`(?:\b|_)(?:[ht]?otp|mfa|[2t]fa|pin|tan|cv[cv]2?)(?:\b|_|\d)|` +
	`(?-i:[a-z\d](?:[HT]?(?:Otp|OTP)|[HT]otp|Mfa|MFA|[2T]?FA|Pin|PIN|Tan|TAN|Cv[cv]|CV[CV])(?:\b|_|[A-Z\d]))|` +
	`(?-i:\b(?:[ht]?otp|mfa|pin|tan|cv[cv])[A-Z]))`

// Hidden replaces what is not stored.
const Hidden = "[masked]"

var (
	secretName = regexp.MustCompile(`(?i)` + SecretWords)
	// Secrets within a text: after a name and an equal sign or colon, in an XML element, after an authentication scheme, and in a URL.
	secretValue   = regexp.MustCompile(`(?i)([\w.\-\[\]%]*` + SecretWords + `[\w.\-\[\]%]*["']?\s*[=:]\s*)("[^"]*"?|'[^']*'?|[^\s&;,<>"']+)`)
	secretElement = regexp.MustCompile(`(?i)(<[\w:.-]*` + SecretWords + `[\w:.-]*(?:\s[^<>]*)?>)[^<]+`)
	secretScheme  = regexp.MustCompile(`(?i)(\b(?:bearer|basic|digest|negotiate)\s+)[^\s"']+`)
	secretUser    = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)
)

func Secret(name string) bool { return secretName.MatchString(name) }

// URI hides the secrets of a URI.
func URI(uri string) string {
	path, query, ok := strings.Cut(uri, "?")
	path = Text(hidden(path, PathTokens(path)))
	if !ok {
		return path
	}
	return path + "?" + Form(query)
}

// Form hides the secrets of a query or form. JSON sent as a form is a single name, or several if it contains ampersands.
func Form(form string) string {
	if start := strings.TrimLeft(form, " \t\r\n"); strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
		form = JSON(form)
	}
	pairs := strings.Split(form, "&")
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if pairs[i] = maskEncoded(name); !ok {
			continue
		}
		if value != "" && Secret(decoded(name)) {
			value = Hidden
		}
		pairs[i] += "=" + maskEncoded(value)
	}
	return strings.Join(pairs, "&")
}

// maskEncoded hides an encoded value as a whole if it contains secrets.
func maskEncoded(value string) string {
	plain := decoded(value)
	masked := Text(plain)
	switch {
	case masked == plain:
		return value
	case plain == value:
		return masked
	}
	return Hidden
}

func decoded(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}

// Text hides what looks like a secret in a text.
func Text(s string) string {
	s = secretElement.ReplaceAllString(s, "${1}"+Hidden)
	s = secretScheme.ReplaceAllString(s, "${1}"+Hidden)
	s = secretUser.ReplaceAllString(s, "${1}"+Hidden+"@")
	s = hidden(s, JWTs(s))
	s = maskNamed(s)
	return hidden(s, Cards(s))
}

// maskNamed hides what follows the name of a secret, unless it is already hidden.
func maskNamed(s string) string {
	var b strings.Builder
	from := 0
	for _, at := range secretValue.FindAllStringSubmatchIndex(s, -1) {
		if value := s[at[4]:at[5]]; value != `"`+Hidden+`"` {
			b.WriteString(s[from:at[4]] + Hidden)
			from = at[5]
		}
	}
	return b.String() + s[from:]
}

// hidden replaces the found ranges of a text.
func hidden(s string, found [][2]int) string {
	if len(found) == 0 {
		return s
	}
	var b strings.Builder
	from := 0
	for _, at := range found {
		b.WriteString(s[from:at[0]] + Hidden)
		from = at[1]
	}
	b.WriteString(s[from:])
	return b.String()
}

// JSON hides the values of secret names, and what looks like a secret in others. It also accepts the beginning of a text, and keeps the
// formatting.
func JSON(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			end := stringEnd(s, i)
			value := afterColon(s, end)
			switch {
			case value < 0:
				b.WriteString(maskString(s[i:end]))
				i = end
			case Secret(unquoted(s[i:end])):
				b.WriteString(s[i:value])
				if i = valueEnd(s, value); i > value {
					b.WriteString(`"` + Hidden + `"`)
				}
			default:
				b.WriteString(s[i:value])
				i = value
			}
		case c >= '0' && c <= '9':
			end := valueEnd(s, i)
			number := s[i:end]
			if len(Cards(number)) > 0 {
				number = `"` + Hidden + `"`
			}
			b.WriteString(number)
			i = end
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

// stringEnd returns the end of the string that begins at i, or of the text.
func stringEnd(s string, i int) int {
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// afterColon returns where the value begins if a colon follows; -1 otherwise.
func afterColon(s string, i int) int {
	rest := strings.TrimLeft(s[i:], " \t\r\n")
	rest, ok := strings.CutPrefix(rest, ":")
	if !ok {
		return -1
	}
	return len(s) - len(strings.TrimLeft(rest, " \t\r\n"))
}

func valueEnd(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch s[i] {
		case '"':
			i = stringEnd(s, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(s)
}

func unquoted(s string) string {
	var text string
	if json.Unmarshal([]byte(s), &text) == nil {
		return text
	}
	return s
}

// maskString hides what looks like a secret in a JSON string.
func maskString(s string) string {
	text := unquoted(s)
	masked := Text(text)
	if masked == text {
		return s
	}
	if text == s {
		return masked // it is cut, or not a string
	}
	quoted, _ := json.Marshal(masked)
	return string(quoted)
}

// Cards finds what may be payment card numbers: 13 to 19 digits, in one or more groups separated by a blank or dash, with a valid check
// digit. It returns their ranges, in order and without overlap.
func Cards(s string) (found [][2]int) {
	for i := 0; i < len(s); {
		if !digit(s[i]) {
			i++
			continue
		}
		var at, groups []int // the positions of the digits, and which of them start a group
		groups = append(groups, 0)
		for ; i < len(s); i++ {
			if digit(s[i]) {
				at = append(at, i)
			} else if (s[i] == ' ' || s[i] == '-') && i+1 < len(s) && digit(s[i+1]) {
				groups = append(groups, len(at))
			} else {
				break
			}
		}
		groups = append(groups, len(at))
		for f, from := range groups {
			for _, to := range groups[f+1:] {
				if n := to - from; n < 13 || n > 19 || !luhn(s, at[from:to]) {
					continue
				}
				begin, end := at[from], at[to-1]+1
				if last := len(found) - 1; last >= 0 && begin < found[last][1] {
					found[last][1] = max(found[last][1], end)
				} else {
					found = append(found, [2]int{begin, end})
				}
			}
		}
	}
	return found
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func luhn(s string, at []int) bool {
	sum, zeros := 0, true
	for n, i := range at {
		d := int(s[i] - '0')
		zeros = zeros && d == 0
		if (len(at)-n)%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0 && !zeros
}
