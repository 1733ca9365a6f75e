package engine

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/corazawaf/coraza/v3/types"
	"github.com/corazawaf/coraza/v3/types/variables"

	"edge.internal/gateway/internal/waf/mask"
)

// Match is a rule that matched a request, in a form that may be stored: limited, and without the secrets of the request.
type Match struct {
	Rule     int
	Message  string
	Severity string
	Paranoia int // the level from which the rule is active; 0 if it has none
	Tags     []string
	Data     []Datum
	Deciding bool // the request is denied (or would be if Settings.Blocking were set) because of this rule or the score it adds
}

// Datum is a matched part of the request.
type Datum struct {
	Variable string // such as ARGS
	Key      string // such as the name of a parameter
	Value    string // as the rule saw it
	Masked   bool   // Value or Key is at least partly masked
}

const (
	maxMatches = 100 // per request
	maxData    = 8   // per match
	maxText    = 200 // bytes of a message, key or value
)

// Rules below this id set things up or control the flow.
const firstAlert = 910_000

// scoreReport reports whether a rule only reports the total score of the others.
func scoreReport(id int) bool {
	return id == 949110 || id == 949111 || id == 959100 || id == 980170
}

// matches returns the records of a request: of the rules that found something and, if the deciding rule is not among them, of that one. A
// score report decides because of what the others found, and only gets a record if these have none.
func matches(all []types.MatchedRule, decided int) []Match {
	var kept []Match
	var decision types.MatchedRule
	for _, m := range all {
		id := m.Rule().ID()
		if id == decided {
			decision = m
		}
		if id < firstAlert || scoreReport(id) || m.Message() == "" || len(kept) == maxMatches {
			continue
		}
		if kept == nil {
			kept = make([]Match, 0, min(len(all), maxMatches))
		}
		kept = append(kept, record(m))
	}
	for i := range kept {
		kept[i].Deciding = kept[i].Rule == decided || scoreReport(decided) && kept[i].Severity != ""
	}
	recorded := slices.ContainsFunc(kept, func(m Match) bool { return m.Rule == decided }) || scoreReport(decided) && len(kept) > 0
	if decision != nil && decided != 0 && !recorded {
		m := record(decision)
		m.Deciding = true
		kept = append(kept, m)
	}
	return kept
}

func record(m types.MatchedRule) Match {
	rule := m.Rule()
	r := Match{Rule: rule.ID(), Message: cut(m.Message()), Tags: rule.Tags()}
	if s := rule.Severity(); s != types.RuleSeverityUnset {
		r.Severity = s.String()
	}
	r.Paranoia = paranoia(r.Tags)
	for _, d := range m.MatchedDatas() {
		if len(r.Data) == maxData {
			break
		}
		switch d.Variable() {
		case variables.Unknown, variables.TX, variables.MatchedVar, variables.MatchedVars, variables.MatchedVarName, variables.MatchedVarsNames:
			// A derived value: its source is included, too, and the source's name says what must be masked.
			continue
		}
		key, masked := hideText(d.Key()) // which may be a whole text, sent as the name of a parameter
		datum := Datum{Variable: d.Variable().Name(), Key: key}
		datum.Value, datum.Masked = hide(d.Variable(), d.Key(), d.Value())
		datum.Masked = datum.Masked || masked
		if !slices.Contains(r.Data, datum) {
			r.Data = append(r.Data, datum)
		}
	}
	return r
}

const stars = "***"

// Where a secret starts within a text: after a name and an equal sign or colon, an XML element, an authentication scheme, or the user in
// a URL. Its end is uncertain, because rules see decoded text.
var secretStart = regexp.MustCompile(`(?i)(?:` + mask.SecretWords + `[\w.\-\[\]%]*["']?\s*[=:]\s*|<[\w:.-]*` + mask.SecretWords + `[^<>]*>|` +
	`\b(?:bearer|basic|digest|negotiate)\s+|://[^/\s:@]*:)`)

// hide returns what may be stored of a value.
func hide(v variables.RuleVariable, key, value string) (string, bool) {
	switch v {
	case variables.RequestCookies, variables.XML, variables.RequestXML:
		// Cookies are always secret; the text of XML comes without the names of its elements.
		return stars, true
	case variables.ArgsNames, variables.ArgsGetNames, variables.ArgsPostNames, variables.RequestHeadersNames, variables.RequestCookiesNames:
	case variables.RequestURI, variables.RequestURIRaw, variables.RequestFilename, variables.RequestBasename, variables.RequestLine:
		path := value
		if v == variables.RequestLine {
			_, path, _ = strings.Cut(value, " ")
		}
		if found := mask.PathTokens(path); len(found) > 0 {
			text, _ := hideText(value[:len(value)-len(path)+found[0][0]])
			return cut(text + stars), true
		}
	default:
		if mask.Secret(key) {
			return stars, true
		}
	}
	return hideText(value)
}

// hideText returns what may be stored of a text.
func hideText(value string) (string, bool) {
	// Longer than what is stored, so that a secret that starts before the cut is recognized; the rest is not examined.
	if len(value) > 3*maxText {
		value = value[:3*maxText]
	}
	masked := value
	for _, at := range secretStart.FindAllStringIndex(value, -1) {
		if strings.HasPrefix(value[at[0]:], "://") && !userinfo(value[at[1]:]) {
			continue
		}
		masked = value[:at[1]] + stars
		break
	}
	masked = starred(starred(masked, mask.JWTs(masked)), mask.Cards(masked))
	return cut(masked), masked != value
}

// userinfo reports whether "://name:" is followed by a password instead of a port.
func userinfo(rest string) bool {
	end := strings.IndexAny(rest, "@/ ")
	return end > 0 && rest[end] == '@'
}

// starred replaces the letters and digits of the matched ranges.
func starred(s string, found [][2]int) string {
	if len(found) == 0 {
		return s
	}
	out := []byte(s)
	for _, at := range found {
		for i := at[0]; i < at[1]; i++ {
			if c := out[i]; c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' {
				out[i] = '*'
			}
		}
	}
	return string(out)
}

// cut shortens a text for the database: valid UTF-8 without control characters other than tabs and line ends.
func cut(s string) string {
	s = strings.Clone(s[:min(len(s), maxText)]) // so that it does not hold the request
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, s)
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
