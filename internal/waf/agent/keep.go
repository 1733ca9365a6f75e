package agent

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"edge.internal/gateway/internal/waf/engine"
)

// How much of a request is kept.
const (
	keptBody   = 16 << 10
	keptHeader = 32 << 10
	keptURI    = 8 << 10
	shownURI   = 2 << 10 // of a record
	shownName  = 255
)

// hidden stands for what is not kept.
const hidden = "[masked]"

var (
	secretName = regexp.MustCompile(`(?i)` + engine.SecretWords)
	// Secrets inside of a text: after a name and an equal sign or colon, in an element of XML, after the name of a scheme of
	// authentication, and in a URL.
	secretValue   = regexp.MustCompile(`(?i)([\w.\-\[\]%]*` + engine.SecretWords + `[\w.\-\[\]%]*["']?\s*[=:]\s*)("[^"]*"?|'[^']*'?|[^\s&;,<>"']+)`)
	secretElement = regexp.MustCompile(`(?i)(<[\w:.-]*` + engine.SecretWords + `[\w:.-]*(?:\s[^<>]*)?>)[^<]+`)
	secretScheme  = regexp.MustCompile(`(?i)(\b(?:bearer|basic|digest|negotiate)\s+)[^\s"']+`)
	secretUser    = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)

	partName = regexp.MustCompile(`(?i)\bname\*?=("[^"]*"|[^;\s]+)`)
)

// kept is what is kept of a request, so that it can be inspected once more: bounded, and without its secrets.
type kept struct {
	method, uri, version string
	header               []byte // JSON
	body                 []byte
	cut                  bool // it is not all of the request
	masked               bool
}

// keep makes what is kept of a request, of whose body it may have the beginning only.
func keep(r *engine.Request) kept {
	k := kept{method: plain(r.Method, shownName), version: plain(r.Version, shownName), cut: !r.Complete}
	note := func(before, after string) string {
		k.masked = k.masked || before != after
		return after
	}
	limit := func(s string, most int) string {
		if len(s) > most {
			k.cut = true
			s = s[:most]
		}
		return s
	}
	uri := limit(r.URI, keptURI)
	k.uri = note(uri, plain(maskURI(uri), keptURI*2))

	type field struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	fields, left := make([]field, 0, len(r.Header)), keptHeader
	kind := ""
	for _, f := range r.Header {
		if strings.EqualFold(f.Name, "content-type") {
			kind = f.Value
		}
		if left -= len(f.Name) + len(f.Value); left < 0 {
			k.cut = true
			break
		}
		fields = append(fields, field{note(f.Name, plain(f.Name, keptHeader*3)), note(f.Value, plain(maskField(f), keptHeader*3))})
	}
	k.header, _ = json.Marshal(fields)

	body := r.Body
	if len(body) > keptBody {
		body, k.cut = body[:keptBody], true
	}
	text, ok := maskBody(kind, string(body), k.cut)
	if ok {
		k.body = []byte(note(string(body), text))
	} else {
		k.body, k.cut = []byte{}, true
	}
	return k
}

// shown is a request's URI as a record has it.
func shown(uri string) string {
	if len(uri) > keptURI {
		uri = uri[:keptURI]
	}
	return plain(maskURI(uri), shownURI)
}

// maskURI hides the secrets of a URI.
func maskURI(uri string) string {
	path, query, ok := strings.Cut(uri, "?")
	if !ok {
		return maskText(path)
	}
	return maskText(path) + "?" + maskForm(query)
}

// maskField hides the secrets of a header field.
func maskField(f engine.Field) string {
	switch name := strings.ToLower(f.Name); {
	case name == "cookie":
		return maskCookies(f.Value)
	case name == "set-cookie", secretName.MatchString(name): // authorization and proxy-authorization among them
		return hidden
	case name == "referer":
		return maskURI(f.Value)
	}
	return maskText(f.Value)
}

// maskCookies leaves the names of cookies.
func maskCookies(value string) string {
	list := strings.Split(value, ";")
	for i, one := range list {
		name, _, ok := strings.Cut(one, "=")
		switch {
		case ok:
			list[i] = name + "=" + hidden
		case strings.TrimSpace(one) != "":
			list[i] = hidden
		}
	}
	return strings.Join(list, ";")
}

// maskBody hides the secrets of a body. It says false if nothing of it can be kept.
func maskBody(contentType, body string, cut bool) (string, bool) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(strings.ToLower(contentType), ";")
	}
	switch {
	case body == "":
		return "", true
	case strings.Contains(kind, "json"):
		masked := maskJSON(body)
		if !json.Valid([]byte(body)) {
			masked = maskText(masked) // it may be something else
		}
		return masked, true
	case strings.Contains(kind, "urlencoded"):
		return maskForm(body), true
	}
	if cut {
		body = wholeRunes(body)
	}
	if !isText(body) {
		return "", false
	}
	if boundary := parameters["boundary"]; strings.HasPrefix(kind, "multipart/") && boundary != "" {
		return maskParts(body, boundary), true
	}
	return maskText(body), true
}

// maskForm hides the secrets of a query or form.
func maskForm(form string) string {
	pairs := strings.Split(form, "&")
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok:
			pairs[i] = maskEncoded(pair)
		case value == "":
		case secretName.MatchString(decoded(name)):
			pairs[i] = name + "=" + hidden
		default:
			pairs[i] = name + "=" + maskEncoded(value)
		}
	}
	return strings.Join(pairs, "&")
}

// maskEncoded hides a value that has secrets in it. What is encoded is hidden as a whole.
func maskEncoded(value string) string {
	plain := decoded(value)
	masked := maskText(plain)
	switch {
	case masked == plain:
		return value
	case plain == value:
		return masked
	}
	return hidden
}

func decoded(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}

// maskText hides what looks like a secret in a text.
func maskText(s string) string {
	s = secretElement.ReplaceAllString(s, "${1}"+hidden)
	s = secretScheme.ReplaceAllString(s, "${1}"+hidden)
	s = secretUser.ReplaceAllString(s, "${1}"+hidden+"@")
	return maskCards(maskNamed(s))
}

// maskNamed hides what follows the name of a secret, unless it is hidden already.
func maskNamed(s string) string {
	var b strings.Builder
	from := 0
	for _, at := range secretValue.FindAllStringSubmatchIndex(s, -1) {
		if value := s[at[4]:at[5]]; value != `"`+hidden+`"` {
			b.WriteString(s[from:at[4]] + hidden)
			from = at[5]
		}
	}
	return b.String() + s[from:]
}

func maskCards(s string) string {
	found := engine.Cards(s)
	if len(found) == 0 {
		return s
	}
	var b strings.Builder
	from := 0
	for _, at := range found {
		b.WriteString(s[from:at[0]] + hidden)
		from = at[1]
	}
	b.WriteString(s[from:])
	return b.String()
}

// maskParts hides the secrets of a multipart body.
func maskParts(body, boundary string) string {
	parts := strings.Split(body, "--"+boundary)
	for i, part := range parts {
		end, size := strings.Index(part, "\r\n\r\n"), 4
		if end < 0 {
			end, size = strings.Index(part, "\n\n"), 2
		}
		if end < 0 {
			parts[i] = maskText(part)
			continue
		}
		head, content := part[:end+size], part[end+size:]
		secret := false
		for _, m := range partName.FindAllStringSubmatch(head, -1) {
			secret = secret || secretName.MatchString(m[1])
		}
		if secret {
			content = hidden + "\r\n"
		} else {
			content = maskText(content)
		}
		parts[i] = head + content
	}
	return strings.Join(parts, "--"+boundary)
}

// maskJSON hides the values of secret names, and what looks like a secret in others. It takes the beginning of a text, too, and leaves
// its form as it is.
func maskJSON(s string) string {
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
			case secretName.MatchString(unquoted(s[i:end])):
				b.WriteString(s[i:value])
				if i = valueEnd(s, value); i > value {
					b.WriteString(`"` + hidden + `"`)
				}
			default:
				b.WriteString(s[i:value])
				i = value
			}
		case c >= '0' && c <= '9':
			end := valueEnd(s, i)
			number := s[i:end]
			if len(engine.Cards(number)) > 0 {
				number = `"` + hidden + `"`
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

// stringEnd is where the string ends that begins at i, or the text.
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

// afterColon is where the value begins if a colon follows; -1 otherwise.
func afterColon(s string, i int) int {
	rest := strings.TrimLeft(s[i:], " \t\r\n")
	rest, ok := strings.CutPrefix(rest, ":")
	if !ok {
		return -1
	}
	return len(s) - len(strings.TrimLeft(rest, " \t\r\n"))
}

// valueEnd is where the value ends that begins at i.
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
	masked := maskText(text)
	if masked == text {
		return s
	}
	if text == s {
		return masked // it is cut, or no string at all
	}
	quoted, _ := json.Marshal(masked)
	return string(quoted)
}

// isText tells whether all of it is meant to be read.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' })
}

// wholeRunes leaves out a last character of which only a part is there.
func wholeRunes(s string) string {
	b := []byte(s)
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return s[:len(s)-n]
			}
			break
		}
	}
	return s
}

// plain makes a text fit for the database: valid, without zeros, and short.
func plain(s string, most int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) <= most {
		return s
	}
	return wholeRunes(s[:most])
}

// clone gives a request that lives on when the frame that it came with does not, with as much of its body as may be kept.
func clone(r *engine.Request) engine.Request {
	c := *r
	if c.Body = bytes.Clone(r.Body[:min(len(r.Body), keptBody)]); len(c.Body) < len(r.Body) {
		c.Complete = false
	}
	return c
}
