package cluster

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db/replica"
)

const (
	// offlineAfter is how many heartbeats a node must miss to be offline.
	offlineAfter = 3
	// hashEvery is how often a node hashes its configuration.
	hashEvery = 5 * time.Minute
)

// Pace sets how often nodes check each other, and how long a problem may last before they act.
type Pace struct {
	// Beat is the interval of heartbeats.
	Beat time.Duration
	// Resume is when a primary that stepped down accepts changes again if no other node has become the primary. ResumeAnyway applies if
	// it could not ask all of them.
	Resume, ResumeAnyway time.Duration
	// Retry is the pause after a failed sync.
	Retry time.Duration
	// Stray is how long replication may be down, and Stuck how long it may keep failing, before everything is compared again.
	Stray, Stuck time.Duration
	// Resync is the minimum time between two comparisons of a standby with its primary.
	Resync time.Duration
}

var usual = Pace{Beat: 10 * time.Second, Resume: 15 * time.Second, ResumeAnyway: time.Minute, Retry: time.Minute, Stray: time.Minute, Stuck: 30 * time.Second, Resync: 10 * time.Minute}

// peerAnswers holds the last answers of the other nodes. It is not stored: a node asks first when it starts.
type peerAnswers struct {
	mu       sync.Mutex
	of       map[string]*peerAnswer
	hash     replica.Hash
	hashedAt time.Time
	followed time.Time // when following another node was last begun
	stepped  time.Time // since when this node has been seen stepping down
	troubles troubles
}

type peerAnswer struct {
	Identity
	at     time.Time // zero if it has not answered yet
	missed int
	err    error
}

// record records an answer or its absence, and returns the node's status, if it is known.
func (h *peerAnswers) record(id string, answer Identity, err error, now time.Time) Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string]*peerAnswer{}
	}
	x := h.of[id]
	if x == nil {
		x = new(peerAnswer)
		h.of[id] = x
	}
	if x.err = err; err == nil {
		x.Identity, x.at, x.missed = answer, now, 0
		return Online
	}
	return ""
}

// miss records a missed heartbeat, and reports whether the node is offline.
func (h *peerAnswers) miss(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.of[id]
	x.missed++
	return x.missed >= offlineAfter
}

func (h *peerAnswers) last(id string) peerAnswer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.of[id]; x != nil {
		return *x
	}
	return peerAnswer{}
}

// all returns the last answers of all nodes, by name.
func (h *peerAnswers) all() []peerAnswer {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []peerAnswer
	for _, x := range h.of {
		list = append(list, *x)
	}
	slices.SortFunc(list, func(a, b peerAnswer) int { return cmp.Compare(a.FQDN, b.FQDN) })
	return list
}

// identify returns what this node reports about itself.
func (r *Room) identify(ctx context.Context) (Identity, error) {
	s, err := Load(ctx, r.DB)
	if err != nil {
		return Identity{}, err
	}
	i := Identity{
		ID: r.node().ID, FQDN: r.node().Name, Role: s.Role, Epoch: s.Epoch, PrimaryID: s.PrimaryID, Split: s.split(), Version: r.Version, SyncedAt: s.SyncedAt,
		HoldsVIP: r.deps.HoldsVIP != nil && r.deps.HoldsVIP(ctx), Components: map[string]string{},
	}
	if hash, err := r.rehash(ctx); err == nil {
		i.ConfigHash, i.Hashes = hash.String(), hash
	}
	switch s.Role {
	case Standby:
		sub, err := replica.Look(ctx, r.DB)
		i.Streaming = err == nil && sub.Enabled && sub.Worker
		i.Refused = r.refused()
		if i.Newest, err = r.Audit.Newest(ctx); err != nil {
			return Identity{}, err
		}
	case Fenced:
		i.Refused = r.refused()
	case Primary:
		if i.Slots, err = r.slots(ctx); err != nil {
			return Identity{}, err
		}
	}
	if repair, err := r.repairing(); err == nil {
		i.Repair = repair
	}
	if r.deps.Settings != nil {
		if i.Settings, err = r.deps.Settings(ctx); err != nil {
			return Identity{}, err
		}
	}
	for _, c := range r.Engine.Statuses() {
		if c.State != apply.NotInstalled {
			i.Components[string(c.Name)] = string(c.State)
		}
	}
	return i, nil
}

// rehash hashes the configuration now, within two seconds.
func (r *Room) rehash(ctx context.Context) (replica.Hash, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	h, err := r.Hash(ctx)
	if err != nil {
		return nil, err
	}
	r.answers.mu.Lock()
	defer r.answers.mu.Unlock()
	r.answers.hash, r.answers.hashedAt = h, r.Clock.Now()
	return h, nil
}

// hashed returns the last hash, which is at most five minutes old.
func (r *Room) hashed(ctx context.Context) string {
	r.answers.mu.Lock()
	h, at := r.answers.hash, r.answers.hashedAt
	r.answers.mu.Unlock()
	if r.past(at, hashEvery) {
		fresh, err := r.rehash(ctx)
		if err != nil {
			return ""
		}
		h = fresh
	}
	return h.String()
}

// askIdentity asks a node for its identity. An expected node is asked as the node that got its certificate.
func (r *Room) askIdentity(ctx context.Context, m Member) (Identity, error) {
	if m.Expected() {
		id, err := joining(ctx, r.DB, m.FQDN)
		if err != nil || id == "" {
			return Identity{}, errNoMember
		}
		m.ID = id
	}
	i, err := Ask[Identity](ctx, r, m, http.MethodGet, "/agent/cluster/identity", nil)
	if err == nil && i.ID != m.ID {
		return Identity{}, errNoMember
	}
	return i, err
}

// asked is the result of asking a node.
type asked struct {
	Member
	answer Identity
	err    error
}

// askAll asks all other nodes concurrently, and records their answers.
func (r *Room) askAll(ctx context.Context, ask func(ctx context.Context, m Member) (Identity, error)) ([]asked, error) {
	members, err := Members(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	answers := make([]asked, 0, len(members))
	for _, m := range members {
		if m.ID != r.node().ID && m.Status != Pending {
			answers = append(answers, asked{Member: m})
		}
	}
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i].answer, answers[i].err = ask(ctx, answers[i].Member) })
	}
	all.Wait()
	now := r.Clock.Now()
	for i := range answers {
		a := &answers[i]
		if a.Expected() {
			if a.err == nil { // it has joined, but could not report it
				a.err = r.register(ctx, a.answer.ID, a.FQDN, Registration{APIPort: portOf(a.APIURL), Version: a.answer.Version})
			}
			continue
		}
		status, version, hash := r.answers.record(a.ID, a.answer, a.err, now), a.answer.Version, a.answer.ConfigHash
		if a.err != nil {
			version, hash = a.Version, a.ConfigHash
		}
		if status == "" {
			status = a.Status
		}
		if a.Status != Leaving {
			a.Status = status
		}
		if err := r.think(ctx, a.ID, status, version, hash); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// beat asks the other nodes for their identity, and acts on the answers.
func (r *Room) beat(ctx context.Context, s State) {
	r.keepCertified(ctx, s)
	answers, err := r.askAll(ctx, r.askIdentity)
	if err != nil {
		r.Log.Warn("the other nodes were not asked", "err", err)
		return
	}
	if err := r.think(ctx, r.node().ID, Online, r.Version, r.hashed(ctx)); err != nil {
		r.Log.Warn("the status of this node was not stored", "err", err)
	}
	// Rows of nodes also arrive by replication, and certificates are renewed.
	if r.refusedLately() {
		r.Log.Warn("PostgreSQL does not start with the settings for other nodes, so they cannot reach it")
	} else if err := r.publishMembers(ctx); err != nil {
		r.Log.Warn("the list of nodes was not applied everywhere", "err", err)
	}
	var reports []Identity
	whole := true
	for _, a := range answers {
		switch {
		case a.Expected():
		case a.err == nil:
			reports = append(reports, a.answer)
		default:
			whole = false
			// Only heartbeats count, because viewing the cluster asks more often.
			if r.answers.miss(a.ID) {
				if err := r.think(ctx, a.ID, Offline, a.Version, a.ConfigHash); err != nil {
					r.Log.Warn("the status of an offline node was not stored", "node", a.FQDN, "err", err)
				}
			}
		}
	}
	if s, err = Load(ctx, r.DB); err != nil {
		return
	}
	r.act(ctx, s, judge(s, r.node().ID, reports), whole)
}

// verdict is the decision that follows from the answers of other nodes.
type verdict struct {
	do   string
	node Identity
}

// Possible decisions.
const (
	doNothing = ""
	doFence   = "fence"  // there is a newer primary: accept no more changes
	doSplit   = "split"  // there is another primary of the same epoch
	doFollow  = "follow" // become a standby of that node
)

// judge decides what this node does about the answers. Of two primaries the one with the newer epoch is right.
func judge(mine State, me string, reports []Identity) verdict {
	var newest, primary Identity // the newest epoch of all, and the newest primary
	primaries := 0               // of that epoch
	for _, i := range reports {
		if i.ID == me {
			continue
		}
		if i.Epoch > newest.Epoch {
			newest = i
		}
		if i.Role == Primary && i.Epoch >= primary.Epoch {
			if i.Epoch > primary.Epoch {
				primaries = 0
			}
			primary = i
			primaries++
		}
	}
	switch mine.Role {
	case Primary, SteppingDown:
		switch {
		case primary.Epoch > mine.Epoch:
			return verdict{doFence, primary}
		case newest.Epoch > mine.Epoch:
			return verdict{doFence, newest}
		}
		if mine.Role == Primary {
			for _, i := range reports {
				if i.ID != me && i.Epoch == mine.Epoch && (i.Role == Primary || i.Split) {
					return verdict{doSplit, i}
				}
			}
		}
	case Standby, Fenced:
		fits := primary.Epoch > mine.Epoch || primary.Epoch == mine.Epoch && mine.Role == Fenced && !mine.split()
		if primaries == 1 && fits {
			return verdict{doFollow, primary}
		}
	}
	return verdict{}
}

// act carries out a decision.
func (r *Room) act(ctx context.Context, s State, v verdict, whole bool) {
	var err error
	switch v.do {
	case doFence:
		newer := Node{v.node.ID, v.node.FQDN}
		if v.node.Role != Primary {
			newer = Node{ID: v.node.PrimaryID}
			if m, ok, _ := member(ctx, r.DB, newer.ID); ok {
				newer.Name = m.FQDN
			}
		}
		if _, err = r.Fence(ctx, v.node.Epoch, newer); err == nil {
			r.Log.Warn("there is a newer primary: this node accepts no more changes", "primary", newer.Name, "epoch", v.node.Epoch)
			if v.node.Role == Primary {
				r.followSoon(ctx, v.node.ID)
			}
		}
	case doSplit:
		if _, err = r.Split(ctx, s.Epoch, Node{v.node.ID, v.node.FQDN}); err == nil {
			r.Log.Error("another node is the primary, too: neither accepts changes until one of them is promoted", "other", v.node.FQDN, "epoch", s.Epoch)
		}
	case doFollow:
		r.followSoon(ctx, v.node.ID)
	default:
		switch since := r.stepping(s); {
		case s.Role == SteppingDown && (since > r.deps.Pace.Resume && whole || since > r.deps.Pace.ResumeAnyway):
			if err = r.Resume(ctx); err == nil {
				r.Log.Warn("no other node has become the primary: this one accepts changes again")
			}
		case s.Role == Standby:
			r.heal(ctx, s)
		}
	}
	if err != nil {
		r.Log.Warn("the role of this node was not changed", "to", v.do, "err", err)
	}
}

// past reports whether something is longer ago than the limit. That includes times in the future, recorded before the clock was set back.
func (r *Room) past(at time.Time, limit time.Duration) bool {
	age := r.Clock.Now().Sub(at)
	return age < 0 || age >= limit
}

// stepping returns how long this node has been seen stepping down.
func (r *Room) stepping(s State) time.Duration {
	r.answers.mu.Lock()
	defer r.answers.mu.Unlock()
	switch {
	case s.Role != SteppingDown:
		r.answers.stepped = time.Time{}
		return 0
	case r.answers.stepped.IsZero() || r.answers.stepped.After(r.Clock.Now()):
		r.answers.stepped = r.Clock.Now()
	}
	return r.Clock.Now().Sub(r.answers.stepped)
}

// followSoon makes this node a standby of another one, in the background.
func (r *Room) followSoon(ctx context.Context, id string) {
	r.answers.mu.Lock()
	early := !r.past(r.answers.followed, r.deps.Pace.Retry) || r.refusedLately()
	if !early {
		r.answers.followed = r.Clock.Now()
	}
	r.answers.mu.Unlock()
	if early {
		return
	}
	m, ok, err := member(ctx, r.DB, id)
	if err != nil || !ok {
		return
	}
	go func() { _, _ = r.followMember(ctx, m, false) }() // which reports the result itself
}

// keepCertified renews this node's certificate before it expires.
func (r *Room) keepCertified(ctx context.Context, s State) {
	var err error
	switch i := r.identity.Load(); {
	case s.Role == Primary:
		if err = r.certifySelf(ctx); errors.Is(err, errNoAuthority) {
			err = nil
		}
	case i != nil && r.Clock.Now().After(i.own.Leaf.NotAfter.Add(-renewBefore)):
		err = r.renewHere(ctx, s, i)
	}
	if err != nil {
		r.Log.Warn("the certificate of this node was not renewed", "err", err)
	}
}

// renewHere has the primary issue a new certificate for this node.
func (r *Room) renewHere(ctx context.Context, s State, i *identity) error {
	primary, ok, err := member(ctx, r.DB, s.PrimaryID)
	if err != nil || !ok {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	csr, err := request(r.node().ID, i.own.Leaf.DNSNames[0], key)
	if err != nil {
		return err
	}
	out, err := Ask[Certified](ctx, r, primary, http.MethodPost, "/agent/cluster/certificates", Renewal{csr})
	if err != nil {
		return err
	}
	var c *x509.Certificate
	if c, err = parseCertificate([]byte(out.Certificate)); err != nil {
		return err
	}
	if err := issuedBy(i.ca, c, key, r.node().ID); err != nil {
		return err
	}
	return r.saveIdentity(newIdentity(i.ca, c, key))
}
