package engine

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/corazawaf/coraza/v3/types/variables"
)

// Exclusion disables a rule, or one target of it, for requests below a path.
type Exclusion struct {
	rule   int
	path   string
	exact  bool                     // only the path, nothing below it
	target []variables.RuleVariable // empty for the whole rule
	key    string
}

// kin lists the variables that hold the same parameter: rules use any of them.
var kin = map[variables.RuleVariable][]variables.RuleVariable{
	variables.Args:                 {variables.Args, variables.ArgsGet, variables.ArgsPost},
	variables.ArgsNames:            {variables.ArgsNames, variables.ArgsGetNames, variables.ArgsPostNames},
	variables.RequestCookies:       {variables.RequestCookies},
	variables.RequestCookiesNames:  {variables.RequestCookiesNames},
	variables.RequestHeaders:       {variables.RequestHeaders},
	variables.RequestHeadersNames:  {variables.RequestHeadersNames},
	variables.Files:                {variables.Files},
	variables.FilesNames:           {variables.FilesNames},
	variables.MultipartPartHeaders: {variables.MultipartPartHeaders},
	variables.XML:                  {variables.XML},
}

func init() {
	for _, v := range []variables.RuleVariable{variables.Args, variables.ArgsNames} {
		for _, part := range kin[v][1:] {
			kin[part] = kin[v]
		}
	}
}

// NewExclusion disables a rule at and below a path prefix ("" or "/" for everywhere), for the given parameter of a variable as named in a
// Match, or for the whole rule if both are empty. Rules that set up the inspection, compute its score, or protect the engine itself
// cannot be excluded.
func NewExclusion(rule int, prefix, variable, parameter string) (Exclusion, error) {
	x := Exclusion{rule: rule, path: prefix, key: strings.ToLower(parameter)}
	switch {
	case rule >= 1 && rule <= 99_999, rule >= 911_000 && rule <= 948_999, rule >= 950_000 && rule <= 958_999:
	default:
		return x, fmt.Errorf("rule %d cannot be left out", rule)
	}
	if prefix != "" && (prefix[0] != '/' || !plain(prefix)) {
		return x, fmt.Errorf("%q is not a plain path", prefix)
	}
	if variable == "" {
		if parameter != "" {
			return x, fmt.Errorf("the variable that holds %q is missing", parameter)
		}
		return x, nil
	}
	v, err := variables.Parse(variable)
	if err == nil && kin[v] == nil {
		err = fmt.Errorf("a target of %s cannot be left out", variable)
	}
	if err == nil && parameter == "" {
		err = fmt.Errorf("the name of the parameter in %s is missing", variable)
	}
	x.target = kin[v]
	return x, err
}

// Exactly restricts the exclusion to its path, without anything below it.
func (x Exclusion) Exactly() Exclusion {
	x.exact = true
	return x
}

// holds reports whether an exclusion applies to a path; plain says whether all servers read the path the same way.
func (x *Exclusion) holds(p string, plain bool) bool {
	switch {
	case x.exact:
		return plain && p == x.path
	case x.path == "" || x.path == "/":
		return true
	}
	return plain && within(p, x.path)
}

// within reports whether a path is at or below a prefix.
func within(p, prefix string) bool {
	return strings.HasPrefix(p, prefix) && (len(p) == len(prefix) || prefix == "" || strings.HasSuffix(prefix, "/") || p[len(prefix)] == '/')
}

// plain reports whether all servers read a decoded path the same way: without steps up, empty segments, parameters of segments,
// backslashes, or anything encoded twice.
func plain(p string) bool {
	if strings.ContainsAny(p, "\\;%\x00") {
		return false
	}
	clean := path.Clean(p)
	return p == clean || p == clean+"/"
}

// plainPath returns the path of a request's URI if it is plain. Exclusions for a path apply to no other: otherwise, /open/../closed would
// have those of /open.
func plainPath(uri string) (string, bool) {
	p, _, _ := strings.Cut(uri, "?")
	p, _, _ = strings.Cut(p, "#")
	if !strings.HasPrefix(p, "/") {
		_, rest, ok := strings.Cut(p, "://")
		if !ok {
			return "", false
		}
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return "/", true
		}
		p = rest[i:]
	}
	if strings.Contains(strings.ToLower(p), "%2f") {
		return "", false
	}
	decoded, err := url.PathUnescape(p)
	if err != nil || !plain(decoded) {
		return "", false
	}
	return decoded, true
}

func exclude(tx transaction, uri string, exclusions []Exclusion) {
	if len(exclusions) == 0 {
		return
	}
	p, ok := plainPath(uri)
	for i := range exclusions {
		x := &exclusions[i]
		if !x.holds(p, ok) {
			continue
		}
		if len(x.target) == 0 {
			tx.RemoveRuleByID(x.rule)
		}
		for _, v := range x.target {
			tx.RemoveRuleTargetByID(x.rule, v, x.key, nil)
		}
	}
}
