// Package engine is the web application firewall's engine: Coraza with the OWASP core rule set, with one verdict per request. It knows
// neither how requests get here nor what happens to them.
//
// One engine serves all domains. What differs between domains (blocking or detecting, paranoia level, exclusions) is set for each
// transaction, without a build; each distinct text of custom rules needs its own engine, which all domains with that text share.
//
// A verdict depends only on the engine, the request (except its ID and Domain) and the settings, so a request that matched nothing need
// not be inspected again: see cache.go. Replacements for operators of the rule language, such as a faster @rx, are registered before the
// first engine is built, in build.
package engine

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental"
	"github.com/corazawaf/coraza/v3/types"

	"edge.internal/gateway/internal/waf/seclang"
)

type Request struct {
	ID                  string
	Domain              string
	Source, Destination netip.AddrPort
	Method              string
	URI                 string // as in the request line
	Version             string // 1.1 or HTTP/1.1
	Header              []Field
	Body                []byte
	Complete            bool // Body is complete
}

// Field is one header field. Fields keep their order, and repeated ones are separate.
type Field struct{ Name, Value string }

type Response struct {
	Status   int
	Version  string // 1.1 or HTTP/1.1
	Header   []Field
	Body     []byte
	Complete bool // Body is complete
}

// Settings say how to inspect a request.
type Settings struct {
	Blocking   bool // otherwise nothing is denied
	Paranoia   int  // 1…4
	Exclusions []Exclusion
	Custom     *Custom // or nil
	MaxBody    int     // how much of the body to inspect; 0 for the engine's maximum
}

// Verdict is the result of an inspection.
type Verdict struct {
	Deny    bool
	Rule    int // the rule that denies the request, or would if Settings.Blocking were set; 0 for none
	Score   int
	Partial bool // the body was not inspected completely
	// Response means that it is about the response to the request.
	Response bool
	Matches  []Match
}

//go:embed coraza.conf
var recommended string

// bodyLimit is the maximum inspected part of a body: more than any proxy's buffer holds. The engine's own limit is higher, with room for
// what finish adds; it keeps everything in memory.
const bodyLimit = 1 << 20

// detecting is the variable that turns a transaction of a blocking engine into one that only detects. Custom rules cannot set it: their
// variables have a prefix.
const detecting = "gateway_detecting"

// mode precedes all other rules, because those of Coraza's settings deny, too.
const mode = `SecRule TX:` + detecting + ` "@eq 1" "id:190001,phase:1,pass,nolog,t:none,ctl:ruleEngine=DetectionOnly"`

// settings follow Coraza's recommended ones. The engine logs nothing, and responses have their own engine.
var settings = fmt.Sprintf(`
SecRuleEngine On
SecAuditEngine Off
SecRequestBodyLimit %[1]d
SecRequestBodyInMemoryLimit %[1]d
SecResponseBodyAccess Off
`, 2*bodyLimit+2)

type Set struct {
	extra   string // settings of the rule set
	stock   bool   // see NewStock
	builds  atomic.Uint64
	plain   atomic.Pointer[engine] // see Build
	answers lazily
	clean   clean

	building sync.Mutex

	mu     sync.Mutex
	custom map[[sha256.Size]byte]*shared
}

// lazily is an engine that is built on first use.
type lazily struct {
	once   sync.Once
	engine *engine
	err    error
}

type engine struct {
	waf    coraza.WAF
	rules  map[int]bool
	number uint64 // unique among the engines of the set
	steady bool   // the same request always gets the same verdict
	spares spares
	asks   error // why every rule is evaluated; nil if some are spared
}

// shared is an engine with custom rules, with its number of users.
type shared struct {
	build func() (*engine, error)
	users int
}

// Custom is one user's reference to an engine with custom rules.
type Custom struct {
	set    *Set
	key    [sha256.Size]byte
	engine *engine
	closed atomic.Bool
}

// New builds the engine that serves all domains without custom rules.
func New() (*Set, error) { return NewWith("") }

// NewWith is New with additional settings of the core rule set, which its own tests need.
func NewWith(extra string) (*Set, error) {
	return newSet(&Set{extra: extra})
}

// NewStock is New without optimizations: every request is inspected, and every rule evaluated. It exists for comparison.
func NewStock() (*Set, error) { return newSet(&Set{stock: true}) }

func newSet(s *Set) (*Set, error) {
	s.custom = map[[sha256.Size]byte]*shared{}
	return s, s.Build()
}

// Later is New without an engine: Build makes it when there is something to inspect. It takes about a second and a few hundred megabytes,
// which a gateway saves as long as no domain needs it.
func Later() *Set { return &Set{custom: map[[sha256.Size]byte]*shared{}} }

// Build makes the engine that serves all domains without custom rules, unless it exists.
func (s *Set) Build() error {
	s.building.Lock()
	defer s.building.Unlock()
	if s.plain.Load() != nil {
		return nil
	}
	e, err := s.build(forRequests, nil)
	if err == nil {
		s.plain.Store(e)
	}
	return err
}

// What an engine is made of, besides Coraza's settings.
const (
	forRequests  = "Include @owasp_crs/*.conf"
	forResponses = `
SecResponseBodyAccess On
SecResponseBodyMimeType text/plain text/html text/xml application/xml application/xhtml+xml application/json
Include @owasp_crs/REQUEST-901-*.conf
Include @owasp_crs/RESPONSE-95*.conf`
)

// build makes an engine from what is compiled into the program. Coraza's engine may share lists between concurrent requests (see slack);
// a second build then fills these lists with directives.
func (s *Set) build(ruleSet string, rules *seclang.Rules) (*engine, error) {
	before, after := "", ""
	if rules != nil {
		before, after = rules.Before(), rules.After()
	}
	for range 4 {
		e := &engine{rules: map[int]bool{}, number: s.builds.Add(1), steady: !s.stock && (rules == nil || rules.Steady())}
		spare, done := "", func() {}
		if ruleSet == forRequests && !s.stock {
			spare, done = e.spares.rulesFor()
		}
		config := coraza.NewWAFConfig().WithRootFS(coreruleset.FS).
			WithDirectives(mode).WithDirectives(spare).WithDirectives(recommended).WithDirectives(settings).
			WithDirectives("Include @crs-setup.conf.example").WithDirectives(s.extra).
			WithDirectives(before).WithDirectives(ruleSet).WithDirectives(after)
		config = experimental.WAFConfigWithRuleObserver(config, func(r types.RuleMetadata) { e.rules[r.ID()] = true })
		var err error
		e.waf, err = coraza.NewWAF(config)
		done()
		if err != nil {
			return nil, fmt.Errorf("waf: %w", err)
		}
		if rules != nil {
			if err := rules.Missing(func(id int) bool { return e.rules[id] }); err != nil {
				return nil, errors.Join(err, e.close())
			}
		}
		fill, err := slack(e.waf)
		if err == nil && fill == "" {
			if spare != "" {
				e.asks = e.spares.find(e.waf)
			}
			return e, nil
		}
		if err := errors.Join(err, e.close()); err != nil {
			return nil, fmt.Errorf("waf: %w", err)
		}
		after += fill
	}
	return nil, errors.New("waf: the targets that the custom rules leave out cannot be kept apart between requests")
}

// close releases what Coraza keeps beyond an engine's life. Running transactions are not affected.
func (e *engine) close() error { return e.waf.(experimental.WAFCloser).Close() }

// Custom returns the engine with these rules, and builds it for its first user. An error in the rules is a *seclang.Error.
func (s *Set) Custom(rules *seclang.Rules) (*Custom, error) {
	key := sha256.Sum256([]byte(rules.Before() + "\x00" + rules.After()))
	s.mu.Lock()
	e := s.custom[key]
	if e == nil {
		e = &shared{build: sync.OnceValues(func() (*engine, error) { return s.build(forRequests, rules) })}
		s.custom[key] = e
	}
	e.users++
	s.mu.Unlock()
	built, err := e.build()
	c := &Custom{set: s, key: key, engine: built}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close releases the reference. The last one closes the engine.
func (c *Custom) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	e := c.set.custom[c.key]
	if e.users--; e.users > 0 {
		return nil
	}
	delete(c.set.custom, c.key)
	if c.engine == nil {
		return nil
	}
	return c.engine.close()
}

// Builds returns how many engines were built so far, and Engines how many exist.
func (s *Set) Builds() uint64 { return s.builds.Load() }

func (s *Set) Engines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.custom)
	if s.plain.Load() != nil {
		n++
	}
	return n
}

// Slow returns why every rule is evaluated for every request, which takes longer; nil if some are spared.
func (s *Set) Slow() error { return s.plain.Load().asks }

func (s *Set) Has(id int) bool { return s.plain.Load().rules[id] }

// Close closes the shared engines; those with custom rules are closed by their users.
func (s *Set) Close() error {
	var err error
	if e := s.plain.Load(); e != nil {
		err = e.close()
	}
	s.answers.once.Do(func() {})
	if s.answers.engine != nil {
		err = errors.Join(err, s.answers.engine.close())
	}
	return err
}

func (s *Set) of(with *Settings) *engine {
	if with.Custom != nil {
		return with.Custom.engine
	}
	return s.plain.Load()
}

// Known reports, at next to no cost, whether a request is known to match nothing with these settings.
func (s *Set) Known(r *Request, with Settings) bool {
	d, ok := s.of(&with).digestOf(r, &with)
	return ok && s.clean.has(d)
}

// Inspect returns the verdict on a request. An error means that there is none: the context ended, or the engine failed.
func (s *Set) Inspect(ctx context.Context, r *Request, with Settings) (Verdict, error) {
	e := s.of(&with)
	d, ok := e.digestOf(r, &with)
	if ok && s.clean.has(d) {
		return Verdict{}, nil
	}
	v, err := e.inspect(ctx, r, with)
	if ok && err == nil && spotless(&v) {
		s.clean.add(d)
	}
	return v, err
}

// InspectResponse returns the verdict on the response to a request, of which only the first line, the host name and the addresses are
// used. Custom rules only apply to requests.
func (s *Set) InspectResponse(ctx context.Context, r *Request, res *Response, with Settings) (Verdict, error) {
	a := &s.answers
	a.once.Do(func() { a.engine, a.err = s.build(forResponses, nil) })
	if a.err != nil {
		return Verdict{}, a.err
	}
	return a.engine.inspectResponse(ctx, r, res, with)
}
