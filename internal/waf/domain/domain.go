// Package domain defines a domain's configuration of the web application firewall, in the form that the room stores and the agent reads.
package domain

import (
	"errors"

	"edge.internal/gateway/internal/waf/engine"
)

// Modes.
const (
	Detection = "detection"
	Blocking  = "blocking"
)

// maxBody is the largest part of a body that can be inspected. The proxy's buffer holds no more.
const maxBody = 128 << 10

// Settings say how to inspect the requests of a domain.
type Settings struct {
	Mode           string      `json:"mode" enum:"detection,blocking" doc:"Whether requests that rules match are only recorded, or refused."`
	ParanoiaLevel  int         `json:"paranoia_level" minimum:"1" maximum:"4" doc:"How strict the rules are. Each level finds more attacks, but also raises more false positives."`
	RuleExclusions []int       `json:"rule_exclusions" doc:"Ids of rules that are excluded everywhere."`
	Exclusions     []Exclusion `json:"exclusions" maxItems:"500" doc:"Rules that are left out below a path, or for one parameter."`
	CustomRules    string      `json:"custom_rules" maxLength:"131072" doc:"Rules of your own in SecLang, with ids from 1 to 99999."`
	MaxBodyBytes   int         `json:"max_body_bytes" minimum:"1024" maximum:"131072" doc:"How much of a body is inspected. The proxy buffers about 118 KiB of headers and body together; anything beyond that counts as larger."`
}

// New returns the default settings of a domain.
func New() Settings {
	return Settings{Mode: Detection, ParanoiaLevel: 1, RuleExclusions: []int{}, Exclusions: []Exclusion{}, MaxBodyBytes: maxBody}
}

// Engine converts the settings for the engine, without the custom rules. Invalid exclusions are reported and left out.
func (s *Settings) Engine(report func(wrong error)) engine.Settings {
	e := engine.Settings{Blocking: s.Mode == Blocking, Paranoia: s.ParanoiaLevel, MaxBody: s.MaxBodyBytes}
	add := func(x Exclusion) {
		if narrow, err := x.Engine(); err != nil {
			report(err)
		} else {
			e.Exclusions = append(e.Exclusions, narrow)
		}
	}
	for _, x := range s.Exclusions {
		add(x)
	}
	for _, id := range s.RuleExclusions {
		add(Exclusion{RuleID: id})
	}
	return e
}

// Exclusion disables a rule for some requests.
type Exclusion struct {
	RuleID    int    `json:"rule_id" doc:"The rule."`
	Path      string `json:"path" doc:"Path at and below which it is left out; empty or / for every path."`
	Exact     bool   `json:"exact" doc:"Leave it out at the path alone, and not below it."`
	Variable  string `json:"variable" doc:"Part of a request, for example ARGS, whose parameter is excluded; empty to exclude the whole rule."`
	Parameter string `json:"parameter" doc:"Name of that parameter."`
	Note      string `json:"note" doc:"Why."`
}

func (x *Exclusion) Engine() (engine.Exclusion, error) {
	n, err := engine.NewExclusion(x.RuleID, x.Path, x.Variable, x.Parameter)
	if err == nil && x.Exact {
		if x.Path == "" {
			return n, errors.New("the path is missing that it is for")
		}
		n = n.Exactly()
	}
	return n, err
}

// Same reports whether two exclusions disable the same.
func (x Exclusion) Same(y Exclusion) bool {
	y.Note = x.Note
	return x == y
}
