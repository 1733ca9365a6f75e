package verdict

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"edge.internal/gateway/internal/kit/value"
)

// Check returns what is wrong with the value of an entry, in a sentence for the operator.
func Check(kind, text string) error {
	_, err := parse(kind, text)
	return err
}

// parsed is the value of an entry. Only the fields of its type are set.
type parsed struct {
	domains  []string
	networks []netip.Prefix
	ranges   []span
	hosts    []*regexp.Regexp
	urls     []*regexp.Regexp
	ports    []ports
	methods  []string
	times    []window
	days     bool // the last word of times was days, so hours may follow
}

// span is a range of addresses.
type span struct{ first, last netip.Addr }

func (s span) has(a netip.Addr) bool {
	return a.BitLen() == s.first.BitLen() && !a.Less(s.first) && !s.last.Less(a)
}

type ports struct{ first, last int }

func (p ports) has(port int) bool { return p.first <= port && port <= p.last }

// window is a part of some days of the week, in minutes.
type window struct {
	days        uint8 // a bit for each, Sunday the lowest
	first, last int
}

// has reports whether a time is in the window, which includes the last minute.
func (w window) has(at time.Time) bool {
	minute := at.Hour()*60 + at.Minute()
	return w.days&(1<<at.Weekday()) != 0 && w.first <= minute && minute <= w.last
}

// parsers parse one word of a value each. A value of type time is more than its words.
var parsers = map[string]func(p *parsed, word string) error{
	"src":          (*parsed).address,
	"dst":          (*parsed).address,
	"dstdomain":    (*parsed).domain,
	"dstdom_regex": func(p *parsed, word string) error { return expression(&p.hosts, word, "(?i)") },
	"url_regex":    func(p *parsed, word string) error { return expression(&p.urls, word, "") },
	"port":         (*parsed).port,
	"method":       (*parsed).method,
	"time":         (*parsed).time,
}

func parse(kind, text string) (*parsed, error) {
	add := parsers[kind]
	if add == nil {
		return nil, fmt.Errorf("the type %q does not exist", kind)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }) {
		return nil, errors.New("must be one line without control characters")
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, errors.New("must not be empty")
	}
	p := &parsed{}
	for _, word := range words {
		if err := add(p, word); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *parsed) address(word string) error {
	r, err := value.Parse[value.Range](word)
	if err != nil {
		return fmt.Errorf("%q: %w", word, err)
	}
	if n, err := netip.ParsePrefix(r.String()); err == nil {
		if TooWide(n) {
			return tooWide(word)
		}
		p.networks = append(p.networks, n)
		return nil
	}
	first, last := r.Bounds()
	if (span{first, last}).has(mapped) {
		return tooWide(word)
	}
	p.ranges = append(p.ranges, span{first, last})
	return nil
}

// mapped is an IPv4-mapped address. squid stores IPv4 addresses in this form, and would match them in a network that contains it.
var mapped = netip.MustParseAddr("::ffff:0:0")

// TooWide reports whether an IPv6 network contains all of IPv4 for squid. ::/0 does not, because squid has a special word for it.
func TooWide(n netip.Prefix) bool {
	return n.Bits() > 0 && (span{n.Addr(), value.Last(n)}).has(mapped)
}

func tooWide(word string) error {
	return fmt.Errorf("%q is too wide: use ::/0 for all IPv6 addresses, or networks from 2000:: upwards", word)
}

func (p *parsed) domain(word string) error {
	dotted, below := strings.CutPrefix(word, ".")
	name, err := value.Parse[value.Host](dotted)
	if err != nil {
		return fmt.Errorf("%q must be a host name, for example www.example.net, or .example.net to include all subdomains", word)
	}
	if _, err := netip.ParseAddr(name.String()); err == nil {
		return fmt.Errorf("%q is an address, not a name: use the type dst", word)
	}
	if below {
		p.domains = append(p.domains, "."+name.String())
	} else {
		p.domains = append(p.domains, name.String())
	}
	return nil
}

// expression compiles a regular expression in RE2 syntax, whose time is linear in the text.
func expression(into *[]*regexp.Regexp, word, flags string) error {
	if word == "-i" || word == "+i" {
		return errors.New("to ignore case, start the expression with (?i) instead of " + word)
	}
	// Without the flags, so that an error quotes only what was typed.
	if _, err := regexp.Compile(word); err != nil {
		wrong := &syntax.Error{}
		if !errors.As(err, &wrong) {
			return fmt.Errorf("%q is not a regular expression: %w", word, err)
		}
		at := max(0, strings.Index(word, wrong.Expr))
		return fmt.Errorf("%q is not a regular expression: %s at character %d: %s", word, wrong.Code, 1+utf8.RuneCountInString(word[:at]), wrong.Expr)
	}
	x, err := regexp.Compile(flags + word)
	*into = append(*into, x)
	return err
}

func (p *parsed) port(word string) error {
	from, to, ok := strings.Cut(word, "-")
	if !ok {
		to = from
	}
	first, err1 := strconv.ParseUint(from, 10, 16)
	last, err2 := strconv.ParseUint(to, 10, 16)
	if err1 != nil || err2 != nil || first == 0 || last < first {
		return fmt.Errorf("%q must be a port from 1 to 65535, or a range, for example 8000-8999", word)
	}
	p.ports = append(p.ports, ports{int(first), int(last)})
	return nil
}

var methodForm = regexp.MustCompile(`^[A-Z][A-Z0-9_-]{0,31}$`)

func (p *parsed) method(word string) error {
	method := strings.ToUpper(word)
	if !methodForm.MatchString(method) {
		return fmt.Errorf("%q must be a method, for example GET, POST or CONNECT", word)
	}
	p.methods = append(p.methods, method)
	return nil
}

// dayLetters are squid's letters, starting on Sunday. D stands for all working days.
const dayLetters = "SMTWHFA"

const everyDay, workingDays = 0x7f, 0x3e

// time parses days, or the hours of the preceding days.
func (p *parsed) time(word string) error {
	if days, ok := parseDays(word); ok {
		p.times, p.days = append(p.times, window{days, 0, 24 * 60}), true
		return nil
	}
	first, last, err := parseHours(word)
	if err != nil {
		return err
	}
	if !p.days {
		p.times = append(p.times, window{days: everyDay})
	}
	w := &p.times[len(p.times)-1]
	w.first, w.last, p.days = first, last, false
	return nil
}

func parseDays(word string) (days uint8, ok bool) {
	for _, letter := range word {
		i := strings.IndexRune(dayLetters, letter)
		switch {
		case letter == 'D':
			days |= workingDays
		case i >= 0:
			days |= 1 << i
		default:
			return 0, false
		}
	}
	return days, true
}

var hoursForm = regexp.MustCompile(`^(\d{1,2}):(\d\d)-(\d{1,2}):(\d\d)$`)

func parseHours(word string) (first, last int, err error) {
	parts := hoursForm.FindStringSubmatch(word)
	if parts == nil {
		return 0, 0, fmt.Errorf("%q must be days, for example MTWHF (Sunday S, Thursday H, Saturday A, working days D), or hours, for example 08:00-17:59", word)
	}
	var n [4]int
	for i, digits := range parts[1:] {
		n[i], _ = strconv.Atoi(digits)
	}
	first, last = n[0]*60+n[1], n[2]*60+n[3]
	switch {
	case n[1] > 59 || n[3] > 59 || first > 24*60 || last > 24*60:
		return 0, 0, fmt.Errorf("%q contains invalid hours", word)
	case last < first:
		return 0, 0, fmt.Errorf("%q crosses midnight: write it as two ranges, %s:%s-24:00 00:00-%s:%s", word, parts[1], parts[2], parts[3], parts[4])
	}
	return first, last, nil
}
