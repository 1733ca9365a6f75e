package seclang

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// parser processes the directives of one text.
type parser struct {
	ids     map[int]int // custom ids and the lines that define them
	markers map[string]int
	skips   []skip
	chain   int // line of the rule whose chain is open, or 0
	rules   []unit
	tuning  []unit
}

// unit is a directive in canonical form; the links of a chain belong to the unit of the rule that starts it.
type unit struct {
	line  int
	texts []string
	ids   []reference
}

type reference struct{ line, id int }

type skip struct {
	line   int
	marker string
}

func (p *parser) directive(l logical) error {
	name, rest := l.text, ""
	if i := strings.IndexAny(l.text, blanks); i >= 0 {
		name, rest = l.text[:i], l.text[i:]
	}
	canonical, ok := directives[strings.ToLower(name)]
	if !ok {
		return fail(l.line, "%s is not allowed in custom rules; SecRule, SecAction, SecMarker, SecRuleRemoveById, SecRuleUpdateTargetById and SecRuleUpdateActionById are", show(name))
	}
	args, err := tokens(l.line, rest)
	if err != nil {
		return err
	}
	if p.chain != 0 && canonical != "SecRule" {
		return fail(l.line, "the chain that starts at line %d must go on with a SecRule", p.chain)
	}
	switch canonical {
	case "SecRule":
		return p.rule(l.line, args)
	case "SecAction":
		return p.action(l.line, args)
	case "SecMarker":
		return p.marker(l.line, args)
	default:
		return p.tune(l.line, canonical, args)
	}
}

func (p *parser) rule(line int, args []token) error {
	if len(args) != 3 || !args[1].quoted || !args[2].quoted {
		return fail(line, `SecRule takes variables, an operator and actions: SecRule ARGS "@rx pattern" "id:1,phase:2,deny"`)
	}
	vars, err := variableList(line, args[0].text)
	if err != nil {
		return err
	}
	op, err := operator(line, args[1].text)
	if err != nil {
		return err
	}
	where := inRule
	if p.chain != 0 {
		where = inLink
	}
	acts, err := p.actions(line, args[2].text, where)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`SecRule %s "%s" "%s"`, render(vars, true), op, acts.text)
	if where == inLink {
		last := &p.rules[len(p.rules)-1]
		last.texts = append(last.texts, text)
	} else {
		p.rules = append(p.rules, unit{line: line, texts: []string{text}})
		p.chain = line
	}
	p.refer(&p.rules[len(p.rules)-1], line, acts.refers)
	if !acts.chain {
		p.chain = 0
	}
	return nil
}

func (p *parser) action(line int, args []token) error {
	if len(args) != 1 {
		return fail(line, `SecAction takes one list of actions: SecAction "id:1,phase:1,pass,nolog"`)
	}
	acts, err := p.actions(line, args[0].text, inRule)
	if err != nil {
		return err
	}
	if acts.chain {
		return fail(line, "a SecAction cannot start a chain")
	}
	p.rules = append(p.rules, unit{line: line, texts: []string{`SecAction "` + acts.text + `"`}})
	p.refer(&p.rules[len(p.rules)-1], line, acts.refers)
	return nil
}

func (p *parser) refer(u *unit, line int, ids []int) {
	for _, id := range ids {
		u.ids = append(u.ids, reference{line, id})
	}
}

var markerName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{2,63}$`)

func (p *parser) marker(line int, args []token) error {
	if len(args) != 1 || !markerName.MatchString(args[0].text) {
		return fail(line, "SecMarker takes one name of 3 to 64 letters, digits, dots, dashes and underscores")
	}
	name := args[0].text
	if at, ok := p.markers[name]; ok {
		return fail(line, "the marker %s is already at line %d", show(name), at)
	}
	p.markers[name] = line
	p.rules = append(p.rules, unit{line: line, texts: []string{"SecMarker " + name}})
	return nil
}

// tune handles the directives that change existing rules. The engine only uses the first of several ids, so each gets its own directive.
func (p *parser) tune(line int, name string, args []token) error {
	what := ""
	if name != "SecRuleRemoveById" {
		if len(args) < 2 {
			return fail(line, "%s takes ids and then what changes", name)
		}
		last := args[len(args)-1].text
		args = args[:len(args)-1]
		if name == "SecRuleUpdateTargetById" {
			if strings.Contains(last, ",") {
				return fail(line, "targets are separated by |, not by commas")
			}
			vars, err := variableList(line, last)
			if err != nil {
				return err
			}
			what = ` "` + render(vars, false) + `"`
		} else {
			acts, err := p.actions(line, last, inUpdate)
			if err != nil {
				return err
			}
			what = ` "` + acts.text + `"`
		}
	}
	u := unit{line: line}
	for _, arg := range args {
		for _, s := range strings.Fields(arg.text) {
			from, to, err := idRange(line, s)
			if err != nil {
				return err
			}
			if from == to {
				u.texts = append(u.texts, fmt.Sprintf("%s %d%s", name, from, what))
				p.refer(&u, line, []int{from})
			} else {
				u.texts = append(u.texts, fmt.Sprintf("%s %d-%d%s", name, from, to, what))
			}
		}
	}
	if len(u.texts) == 0 {
		return fail(line, "%s takes at least one id", name)
	}
	p.tuning = append(p.tuning, u)
	return nil
}

// digits parses digits only: no sign, no blanks.
func digits(s string) (int, bool) {
	if s == "" || len(s) > 9 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// idRange parses 942100 or 942100-942199. A range stays within one file of the rule set, so that one line cannot disable what it does not
// name.
func idRange(line int, s string) (from, to int, err error) {
	a, b, ranged := strings.Cut(s, "-")
	from, ok := digits(a)
	to = from
	if ranged && ok {
		to, ok = digits(b)
	}
	switch {
	case !ok:
		return 0, 0, fail(line, "%s is not a rule id or a range of ids", show(s))
	case !tunable(from) || !tunable(to):
		return 0, 0, fail(line, "%s: only rules %d…%d and your own (%d…%d) can be tuned", show(s), firstRule, lastRule, firstOwn, lastOwn)
	case from > to:
		return 0, 0, fail(line, "%s: the range ends before it starts", show(s))
	case from/1000 != to/1000:
		return 0, 0, fail(line, "%s: a range must stay within one thousand, such as 942100-942199", show(s))
	}
	return from, to, nil
}

// variable is one target of a rule.
type variable struct {
	negated, counted bool
	name, key        string
}

func (v variable) String() string {
	var b strings.Builder
	if v.negated {
		b.WriteByte('!')
	}
	if v.counted {
		b.WriteByte('&')
	}
	b.WriteString(v.name)
	if v.key != "" {
		b.WriteString(":" + v.key)
	}
	return b.String()
}

// render writes the targets first and then the exclusions from them, because for the engine an exclusion applies to what precedes it. The
// engine shares a rule's list of exclusions between concurrent requests, and adds to it in place if there is spare capacity, so that one
// request could see the exclusions of another. A list whose length is a power of two is full: the last entry is repeated until it is.
// (The rules of the core rule set get the same after they are built; links of a chain cannot be changed then.)
func render(vars []variable, fill bool) string {
	var parts []string
	for _, v := range vars {
		if !v.negated {
			parts = append(parts, v.String())
		}
	}
	left := map[string]int{}
	last := map[string]string{}
	var names []string
	for _, v := range vars {
		if !v.negated {
			continue
		}
		if left[v.name] == 0 {
			names = append(names, v.name)
		}
		left[v.name]++
		last[v.name] = v.String()
		parts = append(parts, v.String())
	}
	if fill {
		for _, name := range names {
			for n := left[name]; n&(n-1) != 0; n++ {
				parts = append(parts, last[name])
			}
		}
	}
	return strings.Join(parts, "|")
}

func variableList(line int, s string) ([]variable, error) {
	var all []variable
	for rest, more := s, true; more; {
		v := variable{}
		for rest != "" && (rest[0] == '!' || rest[0] == '&') {
			if rest[0] == '!' {
				v.negated = true
			} else {
				v.counted = true
			}
			rest = rest[1:]
		}
		end := strings.IndexAny(rest, ":|")
		if end < 0 {
			end = len(rest)
		}
		var ok bool
		if v.name, ok = variables[strings.ToLower(rest[:end])]; !ok {
			return nil, fail(line, "the variable %s is not allowed in custom rules", show(rest[:end]))
		}
		rest = rest[end:]
		if strings.HasPrefix(rest, ":") {
			var err error
			if v.key, rest, err = key(line, v.name, rest[1:]); err != nil {
				return nil, err
			}
		}
		if v.negated && (v.counted || v.key == "") {
			return nil, fail(line, "%s: a target to leave out has the form !ARGS:name", show(v.String()))
		}
		all = append(all, v)
		if len(all) > 64 {
			return nil, fail(line, "more than 64 variables")
		}
		rest, more = strings.CutPrefix(rest, "|")
		if !more && rest != "" {
			return nil, fail(line, "%s: | or the end is expected after a variable", show(rest))
		}
	}
	return all, nil
}

// key parses a selector within a variable: a name, or a pattern between slashes.
func key(line int, name, s string) (key, rest string, err error) {
	if name == "XML" {
		key, _, _ = strings.Cut(s, "|")
		if key != "/*" && key != "//@*" {
			return "", "", fail(line, "XML takes /* or //@*")
		}
		return key, s[len(key):], nil
	}
	if strings.HasPrefix(s, "/") {
		escaped := false
		for i := 1; i < len(s); i++ {
			switch c := s[i]; {
			case strings.IndexByte(blanks+`"'`, c) >= 0:
				return "", "", fail(line, "the pattern in %s must not contain spaces or quotes", show(name+":"+s))
			case escaped:
				escaped = false
			case c == '\\':
				escaped = true
			case c == '/':
				if i == 1 {
					return "", "", fail(line, "%s: the pattern is empty", show(name+"://"))
				}
				return s[:i+1], s[i+1:], nil
			}
		}
		return "", "", fail(line, "the pattern in %s does not end with a slash", show(name+":"+s))
	}
	end := strings.IndexByte(s, '|')
	if end < 0 {
		end = len(s)
	}
	key = s[:end]
	if key == "" || strings.ContainsAny(key, blanks+`"'/\`) {
		return "", "", fail(line, "%s: the name after the colon is missing, or contains a space, quote, slash or backslash", show(name+":"+key))
	}
	return key, s[end:], nil
}

// operator parses the second argument of a SecRule, and returns it as it stands between the quotes.
func operator(line int, quoted string) (string, error) {
	s := strings.ReplaceAll(quoted, `\"`, `"`)
	negation := ""
	if rest, ok := strings.CutPrefix(s, "!"); ok {
		negation, s = "!", rest
	}
	name, data := "rx", s
	if rest, ok := strings.CutPrefix(s, "@"); ok {
		name, data, _ = strings.Cut(rest, " ")
	}
	data = strings.TrimSpace(data)
	op, ok := operators[strings.ToLower(name)]
	if !ok {
		return "", fail(line, "the operator %s is not allowed in custom rules", show("@"+name))
	}
	switch op.argument {
	case none:
		if data != "" {
			return "", fail(line, "@%s takes no argument", op.name)
		}
	case number:
		if _, ok := digits(strings.TrimPrefix(data, "-")); !ok && !strings.Contains(data, "%{") {
			return "", fail(line, "@%s takes a whole number", op.name)
		}
	case addresses:
		for _, a := range strings.Split(data, ",") {
			if !address(strings.TrimSpace(a)) {
				return "", fail(line, "@ipMatch: %s is neither an address nor a network", show(a))
			}
		}
	case literal, expanded:
	}
	if op.argument == expanded || op.argument == number {
		if data == "" {
			return "", fail(line, "@%s takes an argument", op.name)
		}
		if err := macros(line, data); err != nil {
			return "", err
		}
	}
	if (len(data)-len(strings.TrimRight(data, `\`)))%2 == 1 {
		return "", fail(line, "@%s: a backslash at the end has nothing to escape", op.name)
	}
	out := negation + "@" + op.name
	if data != "" {
		out += " " + strings.ReplaceAll(data, `"`, `\"`)
	}
	return out, nil
}

func address(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Zone() == ""
	}
	_, err := netip.ParsePrefix(s)
	return err == nil
}

var macro = regexp.MustCompile(`%\{([^}]*)(\}?)`)

// macros checks the variables to be expanded against the list.
func macros(line int, s string) error {
	for _, m := range macro.FindAllStringSubmatch(s, -1) {
		name, _, _ := strings.Cut(m[1], ".")
		if _, ok := variables[strings.ToLower(name)]; !ok || m[2] == "" {
			return fail(line, "%s: the variable is not allowed in custom rules", show(m[0]))
		}
	}
	return nil
}

// list is a list of actions in canonical form.
type list struct {
	text   string
	chain  bool
	refers []int // single ids of other rules
}

func (p *parser) actions(line int, s string, where place) (list, error) {
	var (
		out        list
		parts      []string
		seen       = map[string]bool{}
		disruptive = ""
	)
	for rest, more := s, true; more; {
		var (
			name, value string
			given       bool
			err         error
		)
		if name, value, given, rest, more, err = nextAction(line, rest); err != nil {
			return out, err
		}
		act, ok := actions[strings.ToLower(name)]
		switch {
		case !ok:
			return out, fail(line, "the action %s is not allowed in custom rules", show(name))
		case act.places&where == 0 && where == inLink:
			return out, fail(line, "%s belongs in the first rule of the chain", act.name)
		case act.places&where == 0:
			return out, fail(line, "%s cannot be changed by SecRuleUpdateActionById", act.name)
		case act.value && value == "":
			return out, fail(line, "%s takes a value", act.name)
		case !act.value && given:
			return out, fail(line, "%s takes no value", act.name)
		case seen[act.name] && !act.repeated:
			return out, fail(line, "%s is set twice", act.name)
		case act.disruptive && disruptive != "":
			return out, fail(line, "a rule cannot %s and %s", disruptive, act.name)
		}
		seen[act.name] = true
		if act.disruptive {
			disruptive = act.name
		}
		if act.value {
			if value, err = p.value(line, act.name, value, &out); err != nil {
				return out, err
			}
			parts = append(parts, act.name+":"+quote(value))
		} else {
			parts = append(parts, act.name)
		}
	}
	if where == inRule && !seen["id"] {
		return out, fail(line, "the rule has no id: give it one of %d…%d", firstOwn, lastOwn)
	}
	out.chain = seen["chain"]
	out.text = strings.Join(parts, ",")
	return out, nil
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_./=;:-]+$`)

func quote(value string) string {
	if bare.MatchString(value) {
		return value
	}
	return "'" + value + "'"
}

// nextAction parses "name", "name:value" or "name:'value'" up to the comma. As in the engine, a single quote after a backslash does not
// end the value, and the backslash stays.
func nextAction(line int, s string) (name, value string, given bool, rest string, more bool, err error) {
	if strings.Contains(s, `"`) {
		return "", "", false, "", false, fail(line, "a double quote inside the actions: use single quotes")
	}
	s = strings.TrimLeft(s, blanks)
	end := strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if end < 0 {
		end = len(s)
	}
	name, rest = s[:end], strings.TrimLeft(s[end:], blanks)
	if name == "" {
		return "", "", false, "", false, fail(line, "an action is expected at %s", show(s))
	}
	if rest, given = strings.CutPrefix(rest, ":"); given {
		rest = strings.TrimLeft(rest, blanks)
		if quoted, ok := strings.CutPrefix(rest, "'"); ok {
			end := -1
			for i := range len(quoted) {
				if quoted[i] == '\'' && (i == 0 || quoted[i-1] != '\\') {
					end = i
					break
				}
			}
			if end < 0 {
				return "", "", false, "", false, fail(line, "a single quote is not closed")
			}
			value, rest = quoted[:end], strings.TrimLeft(quoted[end+1:], blanks)
		} else {
			end := strings.IndexByte(rest, ',')
			if end < 0 {
				end = len(rest)
			}
			value, rest = strings.TrimSpace(rest[:end]), rest[end:]
			if strings.Contains(value, "'") || strings.HasSuffix(value, `\`) {
				return "", "", false, "", false, fail(line, "%s: put the whole value into single quotes", show(value))
			}
		}
	}
	rest, more = strings.CutPrefix(rest, ",")
	if !more && rest != "" {
		return "", "", false, "", false, fail(line, "a comma is expected at %s", show(rest))
	}
	return name, value, given, rest, more, nil
}

var (
	severity = canon(`0 1 2 3 4 5 6 7 EMERGENCY ALERT CRITICAL ERROR WARNING NOTICE INFO DEBUG`)
	phases   = map[string]string{"1": "1", "2": "2", "request": "2"}
	setvar   = regexp.MustCompile(`^(?i:tx)\.(?i:custom_)([A-Za-z0-9_-]{1,64})=(.+)$`)
)

// value checks the value of one action, and returns its canonical form.
func (p *parser) value(line int, name, value string, out *list) (string, error) {
	switch name {
	case "id":
		id, ok := digits(value)
		if !ok || !own(id) {
			return "", fail(line, "%s: the id of a custom rule is one of %d…%d", show(value), firstOwn, lastOwn)
		}
		if at, ok := p.ids[id]; ok {
			return "", fail(line, "the id %d is already taken at line %d", id, at)
		}
		p.ids[id] = line
		return strconv.Itoa(id), nil
	case "phase":
		phase, ok := phases[strings.ToLower(value)]
		if !ok {
			return "", fail(line, "phase %s: custom rules look at requests, in phase 1 (headers) or 2 (body)", show(value))
		}
		return phase, nil
	case "severity":
		s, ok := severity[strings.ToLower(value)]
		if !ok {
			return "", fail(line, "%s is no severity: use 0…7 or a name such as CRITICAL", show(value))
		}
		return s, nil
	case "status":
		status, ok := digits(value)
		if !ok || status < 400 || status > 499 {
			return "", fail(line, "status %s is not one of 400…499", show(value))
		}
		return strconv.Itoa(status), nil
	case "t":
		t, ok := transformations[strings.ToLower(value)]
		if !ok {
			return "", fail(line, "the transformation %s is not known", show(value))
		}
		return t, nil
	case "msg":
		// The message is stored with the alert, where secrets of the request must not appear.
		if strings.Contains(value, "%{") {
			return "", fail(line, "msg must not contain %%{…}: use logdata for that")
		}
	case "logdata":
		return value, macros(line, value)
	case "setvar":
		m := setvar.FindStringSubmatch(value)
		if m == nil {
			return "", fail(line, "setvar %s: only tx.custom_… can be set, as in tx.custom_count=+1", show(value))
		}
		return "tx.custom_" + strings.ToLower(m[1]) + "=" + m[2], macros(line, m[2])
	case "skipAfter":
		if !markerName.MatchString(value) {
			return "", fail(line, "skipAfter %s is not the name of a marker", show(value))
		}
		p.skips = append(p.skips, skip{line, value})
	case "ctl":
		return p.control(line, value, out)
	}
	return value, nil
}

// control allows what tunes a single rule for the current request.
func (p *parser) control(line int, value string, out *list) (string, error) {
	name, what, _ := strings.Cut(value, "=")
	ids, target, targeted := strings.Cut(what, ";")
	from, to := 0, 0
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "ruleremovebyid":
		if targeted {
			return "", fail(line, "ctl:ruleRemoveById takes an id or a range, without a target")
		}
		var err error
		if from, to, err = idRange(line, strings.TrimSpace(ids)); err != nil {
			return "", err
		}
		name = "ruleRemoveById"
	case "ruleremovetargetbyid":
		var err error
		if from, to, err = idRange(line, strings.TrimSpace(ids)); err != nil {
			return "", err
		}
		vars, err := variableList(line, strings.TrimSpace(target))
		if err != nil {
			return "", err
		}
		if len(vars) != 1 || vars[0].negated || vars[0].counted {
			return "", fail(line, "ctl:ruleRemoveTargetById takes one target, as in 942100;ARGS:comment")
		}
		name, target = "ruleRemoveTargetById", ";"+vars[0].String()
	default:
		return "", fail(line, "ctl:%s is not allowed in custom rules; ruleRemoveById and ruleRemoveTargetById are", show(name))
	}
	if from == to {
		out.refers = append(out.refers, from)
		return fmt.Sprintf("%s=%d%s", name, from, target), nil
	}
	return fmt.Sprintf("%s=%d-%d%s", name, from, to, target), nil
}
