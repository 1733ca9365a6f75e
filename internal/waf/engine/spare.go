package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/collection"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/corazawaf/coraza/v3/types"
	"github.com/corazawaf/coraza/v3/types/variables"

	"edge.internal/gateway/internal/waf/rx"
)

// Most of an inspection's cost is Coraza's work for hundreds of rules that cannot match, because they look at a missing header, or for
// words that no value of the request contains. Those are cheap to determine when a phase begins, and are removed from the transaction. A
// rule that does not match leaves nothing behind that another one could see.

// place is what rules look at: a variable, or one header of the request.
type place struct {
	variable variables.RuleVariable
	header   string
}

// maxPlaces is the maximum number of places in a phase, because each has a bit.
const maxPlaces = 64

// steadyVariables are those that no rule changes once a phase has begun.
var steadyVariables = map[variables.RuleVariable]bool{
	variables.Args: true, variables.ArgsNames: true, variables.ArgsGet: true, variables.ArgsGetNames: true, variables.ArgsPost: true, variables.ArgsPostNames: true,
	variables.RequestCookies: true, variables.RequestCookiesNames: true, variables.RequestHeaders: true, variables.RequestHeadersNames: true,
	variables.RequestFilename: true, variables.RequestBasename: true, variables.RequestURI: true, variables.RequestURIRaw: true,
	variables.QueryString: true, variables.RequestLine: true, variables.RequestMethod: true, variables.RequestProtocol: true, variables.RequestBody: true,
	variables.Files: true, variables.FilesNames: true, variables.MultipartPartHeaders: true, variables.XML: true, variables.RequestXML: true,
}

// triggers are characters without which transformations change nothing.
type triggers uint16

const (
	percentOrPlus triggers = 1 << iota
	ampersand
	backslash
	notASCII
	null
	slashOrStar
	space
	dashOrHash
	dotOrColon
	quoteOrComma // and others that a shell ignores
	always       // is in every value
)

var triggersOf = func() (of [256]triggers) {
	for set, marks := range map[triggers]string{
		percentOrPlus: "%+", ampersand: "&", backslash: `\`, null: "\x00", slashOrStar: "/*", space: " \t\n\v\f\r", dashOrHash: "-#", dotOrColon: ".:", quoteOrComma: `"'^,;(`,
	} {
		for _, b := range []byte(marks) {
			of[b] |= set
		}
	}
	for b := 0x80; b <= 0xff; b++ {
		of[b] = notASCII
	}
	return of
}()

// transformation has the properties of a transformation that the engine relies on; a test checks them.
type transformation struct {
	by     triggers // without these it changes nothing but the case of letters
	closed bool     // it maps words to words, and plain values to plain ones
}

var transformations = map[string]transformation{
	"lowerCase": {0, true}, "upperCase": {0, true},
	"urlDecode": {percentOrPlus, true}, "urlDecodeUni": {percentOrPlus, true}, "htmlEntityDecode": {ampersand, true},
	"jsDecode": {backslash, true}, "cssDecode": {backslash, true}, "escapeSeqDecode": {backslash, true},
	"utf8ToUnicode": {notASCII, true}, "removeNulls": {null, true},
	"removeWhitespace": {space | notASCII, true}, "compressWhitespace": {space | notASCII, true},
	"replaceComments": {slashOrStar, true}, "removeCommentsChar": {slashOrStar | dashOrHash, true},
	"cmdLine":       {space | slashOrStar | backslash | quoteOrComma, true},
	"normalisePath": {slashOrStar | dotOrColon, true}, "normalisePathWin": {slashOrStar | dotOrColon | backslash | space, true},
	"length": {always, true},
}

const transformationsOf = "github.com/corazawaf/coraza/v3/internal/transformations."

// value is a value that a rule looks at.
type value struct {
	text string
	kind rx.Kind
	has  triggers
}

func valueOf(text string) value {
	v := value{text, rx.KindOf(text), always}
	for i := range len(text) {
		v.has |= triggersOf[text[i]]
	}
	return v
}

// spare is a rule that may be skipped for some requests.
type spare struct {
	id     int
	phase  types.RulePhase
	level  int    // of paranoia
	places uint64 // the bits of the places it looks at; none if it is always evaluated
	// find is what it looks for, nil if unknown. Then it is only spared if there is nothing to look at.
	find   *rx.Operator
	by     triggers // of its transformations
	closed bool     // all of these are
}

// matches reports whether a rule may match a value; false is certain.
func (s *spare) matches(v *value) bool {
	if v.has&s.by == 0 {
		return s.find.May(v.text, v.kind)
	}
	return !s.closed || s.find.Takes(v.kind)
}

// spares lists the rules of an engine by number, and the places of each phase. If empty, all rules are evaluated.
type spares struct {
	rules  []spare
	places [types.PhaseRequestBody + 1][]place
}

// find determines what the rules of an engine look at. If Coraza's structures are not as expected, which only another version could
// cause, nothing is spared.
func (s *spares) find(waf coraza.WAF) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine is not built as expected: %v", p)
		}
		if err != nil {
			*s = spares{}
		}
	}()
	rules := reflect.ValueOf(waf).FieldByName("waf").Elem().FieldByName("Rules").FieldByName("rules")
	if rules.Len() == 0 {
		return errors.New("the engine has no rules")
	}
	marks := 0 // needed before rules may be spared again
	for i := range rules.Len() {
		rule := rules.Index(i)
		x := spare{id: int(rule.FieldByName("ID_").Int()), phase: types.RulePhase(rule.FieldByName("Phase_").Int())}
		operator := rule.FieldByName("operator")
		switch {
		case fillsArguments(rule):
			*s = spares{}
			return nil
		case operator.IsNil():
			if rule.FieldByName("SecMark_").String() != "" {
				marks = max(0, marks-1)
			}
		case marks == 0 && (x.phase == types.PhaseRequestHeaders || x.phase == types.PhaseRequestBody):
			s.look(&x, rule, operator.Elem())
		}
		marks += skips(rule)
		if x.id != 0 {
			s.rules = append(s.rules, x)
		}
	}
	slices.SortFunc(s.rules, func(a, b spare) int { return cmp.Compare(a.id, b.id) })
	// Try what every request will need.
	tx := waf.NewTransaction().(transaction)
	for _, places := range s.places {
		(&contents{}).read(tx.(plugintypes.TransactionState), places)
	}
	return tx.Close()
}

// fillsArguments reports whether a rule or a link of its chain may fill the arguments during evaluation: then no rule is certain to have
// nothing to look at.
func fillsArguments(rule reflect.Value) bool {
	for {
		if operator := rule.FieldByName("operator"); !operator.IsNil() && strings.HasSuffix(operator.Elem().FieldByName("Function").String(), "restpath") {
			return true
		}
		next := rule.FieldByName("Chain")
		if next.IsNil() {
			return false
		}
		rule = next.Elem()
	}
}

// look determines where a rule looks, and for what.
func (s *spares) look(x *spare, rule, operator reflect.Value) {
	tags := rule.FieldByName("Tags_")
	for i := range tags.Len() {
		x.level = max(x.level, paranoia([]string{tags.Index(i).String()}))
	}
	x.find, x.by, x.closed = looksFor(rule, operator)
	targets := rule.FieldByName("variables")
	all := uint64(0)
	for i := range targets.Len() {
		target := targets.Index(i)
		at := place{variable: variables.RuleVariable(target.FieldByName("Variable").Uint())}
		if !steadyVariables[at.variable] || target.FieldByName("Count").Bool() {
			return
		}
		if at.variable == variables.RequestHeaders && target.FieldByName("KeyRx").IsNil() {
			at.header = target.FieldByName("KeyStr").String()
		}
		places := &s.places[x.phase]
		bit := slices.Index(*places, at)
		if bit < 0 {
			if bit = len(*places); bit == maxPlaces {
				return
			}
			*places = append(*places, at)
		}
		all |= 1 << bit
	}
	x.places = all
}

// looksFor determines what a rule looks for.
func looksFor(rule, operator reflect.Value) (find *rx.Operator, by triggers, closed bool) {
	asks := operator.FieldByName("Operator").Elem()
	if asks.Type() != reflect.TypeFor[*rx.Operator]() || operator.FieldByName("Negation").Bool() {
		return nil, 0, false
	}
	closed = true
	applied := rule.FieldByName("transformations")
	for i := range applied.Len() {
		name := runtime.FuncForPC(applied.Index(i).FieldByName("Function").Pointer()).Name()
		t, known := transformations[strings.TrimPrefix(name, transformationsOf)]
		if !known {
			t.by = always
		}
		by |= t.by
		closed = closed && t.closed
	}
	return (*rx.Operator)(asks.UnsafePointer()), by, closed
}

// skips returns how many of the next rules a rule skips if it matches. Spared rules are not counted by that action, so after such a rule
// none is spared until as many marks, which always count.
func skips(rule reflect.Value) (n int) {
	actions := rule.FieldByName("actions")
	for i := range actions.Len() {
		if action := actions.Index(i); strings.EqualFold(action.FieldByName("Name").String(), "skip") {
			n += int(action.FieldByName("Function").Elem().Elem().FieldByName("data").Int())
		}
	}
	return n
}

// contents holds the values of a request by place.
type contents struct {
	filled uint64 // the bit of each non-empty place
	at     [maxPlaces][]value
}

var allContents = sync.Pool{New: func() any { return &contents{} }}

// read extracts the values from a transaction.
func (c *contents) read(tx plugintypes.TransactionState, places []place) {
	for i, at := range places {
		all := tx.Collection(at.variable)
		var list []types.MatchData
		if at.header == "" {
			list = all.FindAll()
		} else {
			list = all.(collection.Keyed).FindString(at.header)
		}
		for _, m := range list {
			c.filled |= 1 << i
			c.at[i] = append(c.at[i], valueOf(m.Value()))
		}
	}
}

// clear drops everything of a request, and the memory of a large one.
func (c *contents) clear() {
	for i := range c.at {
		if clear(c.at[i]); cap(c.at[i]) > 64 {
			c.at[i] = nil
		}
		c.at[i] = c.at[i][:0]
	}
	c.filled = 0
}

// spares reports whether a rule may be skipped.
func (c *contents) spares(x *spare) bool {
	if x.places == 0 || x.find == nil && c.filled&x.places != 0 {
		return false
	}
	for places := c.filled & x.places; places != 0; places &= places - 1 {
		list := c.at[bits.TrailingZeros64(places)]
		for i := range list {
			if x.matches(&list[i]) {
				return false
			}
		}
	}
	return true
}

// sparing is an operator that never matches. Its rules are the first of each phase, and remove the others that cannot match.
const sparing = "gatewaySpare"

// beingBuilt holds the spares of engines being built, by number, because an operator is created from a text.
var (
	beingBuilt sync.Map // of *spares
	builds     atomic.Uint64
)

// rulesFor returns the rules for an engine. The caller calls done when it is built.
func (s *spares) rulesFor() (rules string, done func()) {
	number := builds.Add(1)
	beingBuilt.Store(number, s)
	return fmt.Sprintf(`
SecRule REQUEST_METHOD "@%[1]s %[2]d" "id:190002,phase:1,pass,nolog,t:none"
SecRule REQUEST_METHOD "@%[1]s %[2]d" "id:190003,phase:2,pass,nolog,t:none"
`, sparing, number), func() { beingBuilt.Delete(number) }
}

func newSparing(options plugintypes.OperatorOptions) (plugintypes.Operator, error) {
	number, err := strconv.ParseUint(options.Arguments, 10, 64)
	if err != nil {
		return nil, err
	}
	s, ok := beingBuilt.Load(number)
	if !ok {
		return nil, fmt.Errorf("there is no engine %d", number)
	}
	return s.(*spares), nil
}

// Evaluate removes rules from the phase that begins.
func (s *spares) Evaluate(tx plugintypes.TransactionState, _ string) bool {
	phase := tx.LastPhase()
	level := tx.Variables().TX().Get("detection_paranoia_level")
	if len(s.rules) == 0 || int(phase) >= len(s.places) || len(level) != 1 {
		return false
	}
	most, err := strconv.Atoi(level[0])
	if err != nil {
		return false
	}
	c := allContents.Get().(*contents)
	defer allContents.Put(c)
	defer c.clear()
	c.read(tx, s.places[phase])
	out := tx.(transaction)
	first, last := 0, 0
	for i := range s.rules {
		x := &s.rules[i]
		switch {
		case x.phase < phase: // is over
		case x.phase == phase && x.level <= most && c.spares(x):
			if last = x.id; first == 0 {
				first = x.id
			}
		case first != 0:
			out.RemoveRuleByIDRange(first, last)
			first = 0
		}
	}
	if first != 0 {
		out.RemoveRuleByIDRange(first, last)
	}
	return false
}
