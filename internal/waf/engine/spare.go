package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/types"
	"github.com/corazawaf/coraza/v3/types/variables"

	"edge.internal/gateway/internal/waf/rx"
)

// Most of what an inspection costs is Coraza's work for hundreds of rules that cannot match: they look at a header that is not there, or
// for words that no value of the request has. Which these are is found out first, for little, and they are taken out of the
// transaction. A rule that does not match leaves nothing behind that another one could see.

// place is a part of a request that rules look at.
type place int

const (
	arguments place = iota // of the URI, and their names
	cookies                // and their names
	fileName
	baseName
	uri
	rawURI
	query
	line
	headers
	headerNames
	body // and whatever is read from it
	firstHeader

	maxPlaces = 64
)

// placeOf are where variables come from.
var placeOf = map[variables.RuleVariable]place{
	variables.Args: arguments, variables.ArgsNames: arguments, variables.ArgsGet: arguments, variables.ArgsGetNames: arguments,
	variables.RequestCookies: cookies, variables.RequestCookiesNames: cookies,
	variables.RequestFilename: fileName, variables.RequestBasename: baseName, variables.RequestURI: uri, variables.RequestURIRaw: rawURI,
	variables.QueryString: query, variables.RequestLine: line, variables.RequestHeaders: headers, variables.RequestHeadersNames: headerNames,
	variables.ArgsPost: body, variables.ArgsPostNames: body, variables.RequestBody: body, variables.Files: body, variables.FilesNames: body,
	variables.MultipartPartHeaders: body, variables.XML: body, variables.RequestXML: body,
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
	quoteOrComma // and what else a shell takes no notice of
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

// transformation is what the engine has to know about one, and a test makes sure of.
type transformation struct {
	by     triggers // without which it changes nothing but the case of letters
	closed bool     // it makes words of words, and plain values of plain ones
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

// value is one that a rule looks at.
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

// spare is a rule that need not be asked about every request.
type spare struct {
	id     int
	level  int    // of paranoia
	places uint64 // that it looks at; the bit of each
	// What it looks for, nil if it is not known. Then it is spared if there is nothing to look at.
	find   *rx.Operator
	by     triggers // of its transformations
	closed bool     // all of these are
}

// matches tells whether a rule may match a value; false is certain.
func (s *spare) matches(v *value) bool {
	if v.has&s.by == 0 {
		return s.find.May(v.text)
	}
	return !s.closed || s.find.Takes(v.kind)
}

// spares are the rules of an engine, in the order of their numbers, and the headers that they name.
type spares struct {
	rules []spare // without places if it is always asked
	named map[string]place
}

// findSpares finds out what the rules of an engine look at.
func findSpares(waf coraza.WAF) (found spares, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine is not built as expected: %v", p)
		}
	}()
	rules := reflect.ValueOf(waf).FieldByName("waf").Elem().FieldByName("Rules").FieldByName("rules")
	if rules.Len() == 0 {
		return found, errors.New("the engine has no rules")
	}
	found.named = map[string]place{}
	marks := 0 // that have to come before rules may be spared again
	for i := range rules.Len() {
		rule := rules.Index(i)
		s := spare{id: int(rule.FieldByName("ID_").Int())}
		operator := rule.FieldByName("operator")
		switch {
		case operator.IsNil():
			if rule.FieldByName("SecMark_").String() != "" {
				marks = max(0, marks-1)
			}
		case strings.HasSuffix(operator.Elem().FieldByName("Function").String(), "restpath"):
			return spares{}, nil // fills the arguments while rules are asked
		case marks == 0:
			found.look(&s, rule, operator.Elem())
		}
		marks += skips(rule)
		if s.id != 0 {
			found.rules = append(found.rules, s)
		}
	}
	slices.SortFunc(found.rules, func(a, b spare) int { return cmp.Compare(a.id, b.id) })
	return found, nil
}

// look finds out where a rule looks, and for what.
func (s *spares) look(x *spare, rule, operator reflect.Value) {
	tags := rule.FieldByName("Tags_")
	for i := range tags.Len() {
		x.level = max(x.level, paranoia([]string{tags.Index(i).String()}))
	}
	x.find, x.by, x.closed = looksFor(rule, operator)
	targets := rule.FieldByName("variables")
	places := uint64(0)
	for i := range targets.Len() {
		target := targets.Index(i)
		variable := variables.RuleVariable(target.FieldByName("Variable").Uint())
		at, known := placeOf[variable]
		if at == headers && known {
			at, known = s.header(target)
		}
		// A body that is not there is empty, and may be looked at.
		empty := value{has: always}
		if !known || target.FieldByName("Count").Bool() || variable == variables.RequestBody && (x.find == nil || x.matches(&empty)) {
			return
		}
		places |= 1 << at
	}
	x.places = places
}

// header is the place of the header that a target names, or of all.
func (s *spares) header(target reflect.Value) (place, bool) {
	name := strings.ToLower(target.FieldByName("KeyStr").String())
	if name == "" || !target.FieldByName("KeyRx").IsNil() {
		return headers, true
	}
	at, known := s.named[name]
	if !known {
		if at = firstHeader + place(len(s.named)); at == maxPlaces {
			return headers, true
		}
		s.named[name] = at
	}
	return at, true
}

// looksFor finds out what a rule looks for.
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

// skips is how many of the next rules a rule leaves out if it matches. Those that are spared do not count there, so that after such a
// rule none is, up to as many marks, which always count.
func skips(rule reflect.Value) (n int) {
	actions := rule.FieldByName("actions")
	for i := range actions.Len() {
		if action := actions.Index(i); strings.EqualFold(action.FieldByName("Name").String(), "skip") {
			n += int(action.FieldByName("Function").Elem().Elem().FieldByName("data").Int())
		}
	}
	return n
}

// contents are the values of a request by their places.
type contents struct {
	filled  uint64 // the bit of each place that has some
	unknown uint64 // the same, if these are not known
	at      [maxPlaces][]value
}

var allContents = sync.Pool{New: func() any { return &contents{} }}

func (c *contents) add(p place, text string) {
	c.filled |= 1 << p
	c.at[p] = append(c.at[p], valueOf(text))
}

func (c *contents) addAll(p place, list []types.MatchData) {
	for _, m := range list {
		c.add(p, m.Key())
		c.add(p, m.Value())
	}
}

func (c *contents) clear() {
	for p := range c.at {
		clear(c.at[p])
		c.at[p] = c.at[p][:0]
	}
	c.filled, c.unknown = 0, 0
}

// read takes the values out of a transaction, to which the request's URI and headers have been given.
func (c *contents) read(s *spares, tx transaction, r *Request) {
	all := tx.Variables()
	c.addAll(arguments, all.ArgsGet().FindAll())
	c.addAll(cookies, all.RequestCookies().FindAll())
	c.add(fileName, all.RequestFilename().Get())
	c.add(baseName, all.RequestBasename().Get())
	c.add(uri, all.RequestURI().Get())
	c.add(rawURI, all.RequestURIRaw().Get())
	c.add(query, all.QueryString().Get())
	c.add(line, all.RequestLine().Get())
	for i := range r.Header {
		f := &r.Header[i]
		c.add(headerNames, f.Name)
		c.add(headers, f.Value)
		if at, ok := s.named[strings.ToLower(f.Name)]; ok {
			c.add(at, f.Value)
		}
	}
	if len(r.Body) > 0 {
		c.unknown = 1<<body | 1<<arguments // as long as it has not been taken apart
	}
}

// spares tells whether a rule need not be asked.
func (c *contents) spares(x *spare) bool {
	if x.places == 0 || c.unknown&x.places != 0 || x.find == nil && c.filled&x.places != 0 {
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

// spare takes the rules out of a transaction that cannot match.
func (s *spares) spare(tx transaction, r *Request, paranoia int) {
	if len(s.rules) == 0 {
		return
	}
	c := allContents.Get().(*contents)
	defer allContents.Put(c)
	defer c.clear()
	c.read(s, tx, r)
	first, last := 0, 0
	for i := range s.rules {
		x := &s.rules[i]
		switch {
		case x.level <= paranoia && c.spares(x):
			if last = x.id; first == 0 {
				first = x.id
			}
		case first != 0:
			tx.RemoveRuleByIDRange(first, last)
			first = 0
		}
	}
	if first != 0 {
		tx.RemoveRuleByIDRange(first, last)
	}
}
