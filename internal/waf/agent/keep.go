package agent

import (
	"bytes"
	"encoding/json"
	"mime"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/mask"
)

// Limits of what is kept of a request.
const (
	keptBody     = 16 << 10
	keptHeader   = 32 << 10
	keptURI      = 8 << 10
	recordedURI  = 2 << 10 // in a record
	recordedName = 255
)

var partName = regexp.MustCompile(`(?i)\bname\*?=("[^"]*"|[^;\s]+)`)

// kept is the part of a request that is kept to inspect it again: limited, and without its secrets.
type kept struct {
	method, uri, version string
	header               []byte // JSON
	body                 []byte
	cut                  bool // it is not the whole request
	masked               bool
}

// keep returns what is kept of a request, which may only have the beginning of its body.
func keep(r *engine.Request) kept {
	k := kept{method: plain(r.Method, recordedName), version: plain(r.Version, recordedName), cut: !r.Complete}
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
	k.uri = note(uri, plain(mask.URI(uri), keptURI*2))

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

// recordURI returns a request's URI for a record.
func recordURI(uri string) string {
	if len(uri) > keptURI {
		uri = uri[:keptURI]
	}
	return plain(mask.URI(uri), recordedURI)
}

// maskField hides the secrets of a header field.
func maskField(f engine.Field) string {
	switch name := strings.ToLower(f.Name); {
	case name == "cookie":
		return maskCookies(f.Value)
	case name == "set-cookie", mask.Secret(name): // including authorization and proxy-authorization
		return mask.Hidden
	case name == "referer":
		return mask.URI(f.Value)
	}
	return mask.Text(f.Value)
}

// maskCookies keeps only the names of cookies.
func maskCookies(value string) string {
	list := strings.Split(value, ";")
	for i, one := range list {
		name, _, ok := strings.Cut(one, "=")
		switch {
		case ok:
			list[i] = name + "=" + mask.Hidden
		case strings.TrimSpace(one) != "":
			list[i] = mask.Hidden
		}
	}
	return strings.Join(list, ";")
}

// maskBody hides the secrets of a body. It returns false if nothing of it may be kept.
func maskBody(contentType, body string, cut bool) (string, bool) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(strings.ToLower(contentType), ";")
	}
	switch {
	case body == "":
		return "", true
	case strings.Contains(kind, "json"):
		masked := mask.JSON(body)
		if !json.Valid([]byte(body)) {
			masked = mask.Text(masked) // it may be something else
		}
		return masked, true
	case strings.Contains(kind, "urlencoded"):
		return mask.Form(body), true
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
	return mask.Text(body), true
}

func maskParts(body, boundary string) string {
	parts := strings.Split(body, "--"+boundary)
	for i, part := range parts {
		end, size := strings.Index(part, "\r\n\r\n"), 4
		if end < 0 {
			end, size = strings.Index(part, "\n\n"), 2
		}
		if end < 0 {
			parts[i] = mask.Text(part)
			continue
		}
		head, content := part[:end+size], part[end+size:]
		secret := false
		for _, m := range partName.FindAllStringSubmatch(head, -1) {
			secret = secret || mask.Secret(m[1])
		}
		if secret {
			content = mask.Hidden + "\r\n"
		} else {
			content = mask.Text(content)
		}
		parts[i] = head + content
	}
	return strings.Join(parts, "--"+boundary)
}

// isText reports whether everything is readable text.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' })
}

// wholeRunes removes an incomplete last character.
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

// plain makes a text storable: valid UTF-8, without NUL, and short.
func plain(s string, most int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) <= most {
		return s
	}
	return wholeRunes(s[:most])
}

// clone copies a request so that it outlives its frame, with as much of its body as may be kept.
func clone(r *engine.Request) engine.Request {
	c := *r
	if c.Body = bytes.Clone(r.Body[:min(len(r.Body), keptBody)]); len(c.Body) < len(r.Body) {
		c.Complete = false
	}
	return c
}

// outline copies what records need of a request, and nothing else.
func outline(r *engine.Request) engine.Request {
	c := *r
	c.URI, c.Header, c.Body = strings.Clone(r.URI[:min(len(r.URI), keptURI)]), nil, nil
	return c
}
