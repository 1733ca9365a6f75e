package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/netip"
	"sync"
)

// maxClean is how many requests are remembered: about a MiB.
const maxClean = 8192

// digest stands for all that the verdict on a request depends on.
type digest [sha256.Size]byte

// clean remembers requests that match no rule: what is asked for again and again is inspected once. It holds nothing else, so that
// whatever was found is found again each time. When it is full, one that was not asked for lately makes room.
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

// spotless tells whether a verdict says no more than that nothing was found.
func spotless(v *Verdict) bool {
	return !v.Deny && !v.Partial && v.Rule == 0 && v.Score == 0 && len(v.Matches) == 0
}

// loopback are the addresses for which the core rule set makes an exception. It looks at a client's address for nothing else, which a
// test makes sure of.
var loopback = [...]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}

// hasher computes digests.
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

// digestOf gives what a request is remembered by, and whether it may be. Each part has its length before it, so that no two requests
// are written alike. What the rules do not look at is left out: the request's ID and domain, ports, and addresses.
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
