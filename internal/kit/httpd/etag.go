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

// ReplyTagged answers with encoded data in the envelope, or with 304 when the caller has it already.
func (c *Call) ReplyTagged(data []byte) error {
	tag := ETag(data)
	c.Header().Set("ETag", tag)
	// The browser may keep the answer as long as it asks before each use.
	c.Header().Set("Cache-Control", "private, no-cache")
	if matches(c.Request.Header.Get("If-None-Match"), tag) {
		c.response.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := make([]byte, 0, len(data)+24)
	body = append(body, `{"data":`...)
	body = append(body, data...)
	body = append(body, `,"error":null}`...)
	return c.ReplyJSON(body)
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
