package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/netip"
	"sync"
)

// maxClean is how many requests are remembered: about 1 MiB.
const maxClean = 8192

// digest identifies everything that the verdict on a request depends on.
type digest [sha256.Size]byte

// clean remembers requests that match no rule, so that repeated ones are inspected once. It holds nothing else, so findings are found
// again each time. When it is full, it evicts one that was not requested lately.
type clean struct {
	mu   sync.Mutex
	at   map[digest]int
	ring []remembered
	hand int
}

type remembered struct {
	digest digest
	asked  bool
}

func (c *clean) has(d digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.at[d]
	if ok {
		c.ring[i].asked = true
	}
	return ok
}

func (c *clean) add(d digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.at[d]; ok {
		return
	}
	if c.at == nil {
		c.at = make(map[digest]int)
	}
	if len(c.ring) < maxClean {
		c.at[d] = len(c.ring)
		c.ring = append(c.ring, remembered{digest: d})
		return
	}
	for c.ring[c.hand].asked {
		c.ring[c.hand].asked = false
		c.hand = (c.hand + 1) % len(c.ring)
	}
	delete(c.at, c.ring[c.hand].digest)
	c.ring[c.hand] = remembered{digest: d}
	c.at[d] = c.hand
	c.hand = (c.hand + 1) % len(c.ring)
}

// spotless reports whether a verdict says only that nothing was found.
func spotless(v *Verdict) bool {
	return !v.Deny && !v.Partial && v.Rule == 0 && v.Score == 0 && len(v.Matches) == 0
}

// loopback has the addresses for which the core rule set makes an exception. It uses a client's address for nothing else; a test checks
// that.
var loopback = [...]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}

type hasher struct {
	hash hash.Hash
	b    []byte
}

var hashers = sync.Pool{New: func() any { return &hasher{hash: sha256.New()} }}

func (h *hasher) number(n int) { h.b = binary.AppendVarint(h.b, int64(n)) }

func (h *hasher) bit(b bool) {
	if b {
		h.number(1)
	} else {
		h.number(0)
	}
}

func (h *hasher) text(s string) {
	h.number(len(s))
	h.b = append(h.b, s...)
}

// digestOf returns the digest of a request, and whether it may be remembered. Each part is preceded by its length, so that different
// requests have different encodings. What the rules do not use is left out: the request's id and domain, ports, and addresses.
func (e *engine) digestOf(r *Request, with *Settings) (d digest, ok bool) {
	if !e.steady || !r.Complete || len(r.Body) > bodyLimit || with.MaxBody > 0 && len(r.Body) > with.MaxBody {
		return d, false
	}
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.b = h.b[:0]
	h.number(int(e.number))
	h.bit(with.Blocking)
	h.number(with.Paranoia)
	h.number(with.MaxBody)
	h.number(len(with.Exclusions))
	for i := range with.Exclusions {
		x := &with.Exclusions[i]
		h.number(x.rule)
		h.text(x.path)
		h.bit(x.exact)
		h.text(x.key)
		h.number(len(x.target))
		for _, v := range x.target {
			h.number(int(v))
		}
	}
	source := r.Source.Addr().Unmap()
	h.bit(source == loopback[0] || source == loopback[1])
	h.text(r.Method)
	h.text(r.URI)
	h.text(r.Version)
	h.number(len(r.Header))
	for i := range r.Header {
		h.text(r.Header[i].Name)
		h.text(r.Header[i].Value)
	}
	h.number(len(r.Body))
	h.hash.Reset()
	h.hash.Write(h.b)
	h.hash.Write(r.Body)
	h.b = h.hash.Sum(h.b[:0])
	copy(d[:], h.b)
	return d, true
}
