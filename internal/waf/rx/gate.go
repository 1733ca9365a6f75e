package rx

import (
	"cmp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// Kind says which characters a value consists of. Most values have no quotes, brackets and other characters of attacks; far fewer
// expressions can match those, often none. Each kind includes the previous ones.
type Kind uint8

// The kinds, from the narrowest to the widest.
const (
	Word  Kind = iota // only letters, digits and wordMarks; or empty
	Plain             // also plainMarks
	Other             // anything
)

const wordMarks, plainMarks = "-_.", " ,:/@+"

var kindOfByte = func() (kinds [256]Kind) {
	for i := range kinds {
		kinds[i] = Other
	}
	for _, b := range []byte(wordMarks + "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		kinds[b] = Word
	}
	for _, b := range []byte(plainMarks) {
		kinds[b] = Plain
	}
	return kinds
}()

// KindOf returns the first kind that includes a value.
func KindOf(value string) (k Kind) {
	for i := range len(value) {
		if k = max(k, kindOfByte[value[i]]); k == Other {
			break
		}
	}
	return k
}

// gate holds what every match contains. With noWord, no word matches.
type gate struct {
	noWord       bool
	plain, other needs
}

// needs says what a match contains: at least one word of each finder. Without finders it may be anything. With never, there is no match.
type needs struct {
	never   bool
	finders []*finder
}

// open reports whether a value may match; false is certain.
func (g *gate) open(value string) bool {
	return g == nil || g.openFor(value, KindOf(value))
}

func (g *gate) openFor(value string, k Kind) bool {
	switch k {
	case Word:
		return !g.noWord && g.plain.in(value)
	case Plain:
		return g.plain.in(value)
	}
	return g.other.in(value)
}

// takes reports whether a value of a kind may match; false is certain.
func (g *gate) takes(k Kind) bool {
	switch {
	case g == nil:
		return true
	case k == Word:
		return !g.noWord && !g.plain.never
	case k == Plain:
		return !g.plain.never
	}
	return !g.other.never
}

func (n *needs) in(value string) bool {
	for _, f := range n.finders {
		if !f.in(value) {
			return false
		}
	}
	return !n.never
}

const (
	maxWords   = 4096 // per finder
	maxProduct = 512  // words in sequence
	maxFinders = 3    // per gate
	maxWord    = 12   // bytes of a word to look for
	// common is the frequency in harmless values above which a word is not worth looking for.
	common = 2
)

func newGate(pattern string) *gate {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	re = re.Simplify()
	return &gate{reader{Word}.required(re).never, newNeeds(reader{Plain}.required(re)), newNeeds(reader{Other}.required(re))}
}

func newNeeds(r requirement) needs {
	sets := r.needs
	if r.exact {
		sets = append(sets, r.words)
	}
	sets = slices.DeleteFunc(sets, func(w words) bool { return len(w.list) > maxWords || w.chance() > common })
	slices.SortStableFunc(sets, func(a, b words) int { return cmp.Compare(a.chance(), b.chance()) })
	n := needs{never: r.never}
	for _, set := range sets[:min(len(sets), maxFinders)] {
		n.finders = append(n.finders, newFinder(set))
	}
	return n
}

// words is a set of texts of which one must occur, in lower case for ASCII. With high, any character beyond ASCII will do, too.
type words struct {
	list []string
	high bool
}

// nothing occurs in every text.
var nothing = words{list: []string{""}}

func (w words) trivial() bool { return slices.Contains(w.list, "") }

// chance estimates how many of them occur in a short harmless value.
func (w words) chance() float64 {
	const positions = 16
	sum := 0.0
	if w.high {
		sum = 0.05
	}
	for _, text := range w.list {
		p := 1.0
		for i := range len(text) {
			p *= frequency(text[i])
		}
		sum += positions * p
	}
	return sum
}

// frequency is the approximate frequency of a byte in harmless values.
func frequency(b byte) float64 {
	switch {
	case strings.IndexByte("etaoinsrlc", b) >= 0:
		return 0.06
	case b >= 'a' && b <= 'z':
		return 0.02
	case b >= '0' && b <= '9':
		return 0.03
	case strings.IndexByte(" -_./", b) >= 0:
		return 0.03
	}
	return 0.004
}

// requirement says what a match of an expression contains.
type requirement struct {
	never bool    // there is no match
	exact bool    // the match is exactly one of words
	words words   // if exact
	needs []words // it contains one of each
}

// reader determines what matches of an expression contain, in values of a kind.
type reader struct{ kind Kind }

// has reports whether values may contain a character. Those beyond ASCII are only in the last kind.
func (e reader) has(r rune) bool {
	return e.kind == Other || r <= unicode.MaxASCII && kindOfByte[r] <= e.kind
}

func (e reader) required(re *syntax.Regexp) requirement {
	switch re.Op {
	case syntax.OpNoMatch:
		return requirement{never: true}
	case syntax.OpLiteral:
		return e.literal(re.Rune)
	case syntax.OpCharClass:
		return e.class(re.Rune)
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return requirement{exact: true, words: nothing}
	case syntax.OpCapture:
		return e.required(re.Sub[0])
	case syntax.OpConcat:
		return e.sequence(re.Sub)
	case syntax.OpPlus:
		return e.sequence([]*syntax.Regexp{re})
	case syntax.OpAlternate:
		return e.alternatives(re.Sub)
	case syntax.OpQuest, syntax.OpStar:
		switch r := e.required(re.Sub[0]); {
		case r.never:
			return requirement{exact: true, words: nothing}
		case r.exact && re.Op == syntax.OpQuest:
			return requirement{exact: true, words: join(r.words, nothing)}
		}
	}
	return requirement{} // anything
}

// literal handles a text. A character beyond ASCII may be written in several ways, so only its surroundings count.
func (e reader) literal(runes []rune) requirement {
	var parts []requirement
	var text strings.Builder
	end := func() {
		parts = append(parts, requirement{exact: true, words: words{list: []string{text.String()}}})
		text.Reset()
	}
	for _, r := range runes {
		switch {
		case !e.has(r):
			return requirement{never: true}
		case r <= unicode.MaxASCII:
			text.WriteByte(lower(byte(r)))
		default:
			end()
			parts = append(parts, requirement{needs: []words{{high: true}}})
		}
	}
	end()
	return concatenated(parts)
}

// maxClass is the maximum size of a character class for which words are built with each character.
const maxClass = 24

// ascii has all ASCII characters, each a word of one.
var ascii = func() string {
	var b [unicode.MaxASCII + 1]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}()

// class handles a character class.
func (e reader) class(ranges []rune) requirement {
	var w words
	var there [unicode.MaxASCII + 1]bool
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], unicode.MaxASCII); r++ {
			there[lower(byte(r))] = there[lower(byte(r))] || e.has(r)
		}
		w.high = w.high || e.kind == Other && ranges[i+1] > unicode.MaxASCII
	}
	for b, is := range there {
		if is {
			w.list = append(w.list, ascii[b:b+1])
		}
	}
	switch {
	case w.high || len(w.list) > maxClass:
		return requirement{needs: []words{w}}
	case len(w.list) == 0:
		return requirement{never: true}
	}
	return requirement{exact: true, words: w}
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

func join(sets ...words) words {
	var all words
	for _, w := range sets {
		all.list, all.high = append(all.list, w.list...), all.high || w.high
	}
	slices.Sort(all.list)
	all.list = slices.Compact(all.list)
	return all
}

// sequence handles a concatenation. A repeated expression follows what precedes it, and precedes what follows it.
func (e reader) sequence(subs []*syntax.Regexp) requirement {
	var parts []requirement
	for _, sub := range subs {
		if sub.Op != syntax.OpPlus {
			parts = append(parts, e.required(sub))
			continue
		}
		once := e.required(sub.Sub[0])
		parts = append(parts, once)
		if once.exact {
			parts = append(parts, requirement{}, once)
		}
	}
	return concatenated(parts)
}

func concatenated(parts []requirement) requirement {
	all := requirement{exact: true, words: nothing}
	run := nothing
	end := func() {
		if !run.trivial() {
			all.needs = append(all.needs, run)
		}
		run = nothing
	}
	for _, p := range parts {
		if p.never {
			return p
		}
		if !p.exact {
			all.exact = false
			end()
			all.needs = append(all.needs, p.needs...)
			continue
		}
		if len(run.list)*len(p.words.list) > maxProduct {
			all.exact = false
			end()
		}
		run = product(run, p.words)
	}
	if all.exact {
		all.words = run
		return all
	}
	end()
	return all
}

// product returns each word of a followed by each of b.
func product(a, b words) words {
	if len(a.list) == 1 && a.list[0] == "" {
		return words{b.list, a.high || b.high}
	}
	list := make([]string, 0, len(a.list)*len(b.list))
	for _, x := range a.list {
		for _, y := range b.list {
			list = append(list, x+y)
		}
	}
	slices.Sort(list)
	return words{slices.Compact(list), a.high || b.high}
}

// alternatives handles an alternation: it requires what one of the alternatives requires.
func (e reader) alternatives(subs []*syntax.Regexp) requirement {
	all := requirement{never: true, exact: true}
	var rarest []words
	for _, sub := range subs {
		r := e.required(sub)
		if r.never {
			continue
		}
		all.never = false
		all.exact = all.exact && r.exact
		rarest = append(rarest, r.best())
	}
	best := join(rarest...)
	switch {
	case all.never:
		return all
	case all.exact: // what is best of each is complete
		all.words = best
		return all
	case best.trivial() || len(best.list) > maxWords:
		return requirement{}
	}
	return requirement{needs: []words{best}}
}

// best returns the rarest words of which one is required.
func (r requirement) best() words {
	rarest := nothing
	if r.exact {
		rarest = r.words
	}
	for _, w := range r.needs {
		if rarest.trivial() || w.chance() < rarest.chance() {
			rarest = w
		}
	}
	return rarest
}

// finder searches a text for words, ignoring case. It goes through the pairs of bytes in the text, and compares words at a pair that one
// of them contains.
type finder struct {
	pairs  [kinds * kinds / 64]uint64
	at     map[uint16][]candidate // by the pair
	single [256]bool
}

// candidate is a word with the offset of the pair in it.
type candidate struct {
	word   string
	offset int
}

// kinds of bytes: letters in any case, digits and the marks in words each have their own, all others share one. Some characters beyond
// ASCII are other cases of letters, such as the Kelvin sign for k: a text that may have one of these is not judged.
const (
	kinds      = 64
	other      = 0
	unjudged   = 63
	marks      = " \"'()<>=-_./\\;:&|$`%{},"
	kelvinLead = 0xe2 // U+212A is e2 84 aa
	longSLead  = 0xc5 // U+017F is c5 bf
	dotLead    = 0xc4 // U+0130, whose lower case is i, is c4 b0; U+0131, whose upper case is I, is c4 b1
)

// folds reports whether a character that begins with two bytes may be another case of a letter.
func folds(first, second byte) bool {
	switch first {
	case kelvinLead:
		return second == 0x84
	case longSLead:
		return second == 0xbf
	case dotLead:
		return second == 0xb0 || second == 0xb1
	}
	return false
}

var kindOf = func() (kind [256]uint8) {
	for i := range 26 {
		kind['a'+i], kind['A'+i] = uint8(1+i), uint8(1+i)
	}
	for i := range 10 {
		kind['0'+i] = uint8(27 + i)
	}
	for i := range len(marks) {
		kind[marks[i]] = uint8(37 + i)
	}
	kind[kelvinLead], kind[longSLead], kind[dotLead] = unjudged, unjudged, unjudged
	return kind
}()

func newFinder(w words) *finder {
	f := &finder{at: map[uint16][]candidate{}}
	any := func(first uint8) {
		for second := range uint16(kinds) {
			f.set(uint16(first)<<6 | second)
		}
	}
	any(unjudged)
	if w.high {
		for b := 0x80; b <= 0xff; b++ {
			f.single[b] = true
			any(kindOf[b])
		}
	}
	for _, word := range w.list {
		word = word[:min(len(word), maxWord)]
		if len(word) == 1 {
			f.single[word[0]], f.single[upper(word[0])] = true, true
			any(kindOf[word[0]])
			continue
		}
		offset := rarest(word)
		pair := uint16(kindOf[word[offset]])<<6 | uint16(kindOf[word[offset+1]])
		f.set(pair)
		f.at[pair] = append(f.at[pair], candidate{word, offset})
	}
	return f
}

func upper(b byte) byte {
	if b >= 'a' && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}

// rarest returns the offset of the rarest pair of bytes in a word.
func rarest(word string) (offset int) {
	least := 2.0
	for i := range len(word) - 1 {
		if p := frequency(word[i]) * frequency(word[i+1]); p < least {
			least, offset = p, i
		}
	}
	return offset
}

func (f *finder) set(pair uint16) { f.pairs[pair>>6] |= 1 << (pair & 63) }

// in reports whether the text may contain one of the words; false is certain.
func (f *finder) in(text string) bool {
	if text == "" {
		return false
	}
	first := uint16(kindOf[text[0]])
	for i := range len(text) - 1 {
		second := uint16(kindOf[text[i+1]])
		if pair := first<<6 | second; f.pairs[pair>>6]&(1<<(pair&63)) != 0 && f.there(text, i, pair) {
			return true
		}
		first = second
	}
	return f.single[text[len(text)-1]]
}

// there reports whether a word occurs where the text has one of its pairs.
func (f *finder) there(text string, i int, pair uint16) bool {
	if f.single[text[i]] || folds(text[i], text[i+1]) {
		return true
	}
	for _, c := range f.at[pair] {
		if from := i - c.offset; from >= 0 && from+len(c.word) <= len(text) && equal(text[from:from+len(c.word)], c.word) {
			return true
		}
	}
	return false
}

// equal compares a text of the same length with one in lower case, ignoring case.
func equal(text, lowered string) bool {
	for i := range len(lowered) {
		if lower(text[i]) != lowered[i] {
			return false
		}
	}
	return true
}
