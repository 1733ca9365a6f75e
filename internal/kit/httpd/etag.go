package httpd

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"edge.internal/gateway/internal/kit/fault"
)

// ETag names a state of a resource by its encoded form.
func ETag(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// Encoded is the whole body of an answer, and the tag of its data. It can be kept and sent again.
type Encoded struct {
	Tag  string
	body []byte
}

// Encode puts encoded data into the envelope.
func Encode(data []byte) Encoded {
	body := make([]byte, 0, len(data)+24)
	body = append(body, `{"data":`...)
	body = append(body, data...)
	body = append(body, `,"error":null}`...)
	return Encoded{Tag: ETag(data), body: body}
}

// Size is how many bytes the body has.
func (e Encoded) Size() int { return len(e.body) }

// ReplyTagged answers with data that is encoded already, or with 304 when the caller has it.
func (c *Call) ReplyTagged(e Encoded) error {
	c.Header().Set("ETag", e.Tag)
	// The browser may keep the answer as long as it asks before each use.
	c.Header().Set("Cache-Control", "private, no-cache")
	if matches(c.Request.Header.Get("If-None-Match"), e.Tag) {
		c.response.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.ReplyJSON(e.body)
}

// Match refuses a mutation whose If-Match, if it has one, does not name the present state.
func Match(ifMatch, tag string) error {
	if ifMatch != "" && !matches(ifMatch, tag) {
		return fault.New(fault.Stale, "somebody has changed this meanwhile: read it again")
	}
	return nil
}

func matches(list, tag string) bool {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimPrefix(strings.TrimSpace(item), "W/")
		if item == "*" || item == tag {
			return true
		}
	}
	return false
}
