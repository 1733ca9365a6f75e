// Package domain is what a domain wants of the web application firewall, in the form in which the room stores it and the agent reads it.
package domain

import (
	"errors"

	"edge.internal/gateway/internal/waf/engine"
)

// What becomes of a request that rules match.
const (
	Detection = "detection"
	Blocking  = "blocking"
)

// maxBody is how much of a body can be inspected. The proxy's buffer holds no more.
const maxBody = 128 << 10

// Settings say how the requests of a domain are inspected.
type Settings struct {
	Mode           string      `json:"mode" enum:"detection,blocking" doc:"Whether requests that rules match are only recorded, or refused."`
	ParanoiaLevel  int         `json:"paranoia_level" minimum:"1" maximum:"4" doc:"How strict the rules are. Each level finds more attacks, but also raises more false positives."`
	RuleExclusions []int       `json:"rule_exclusions" doc:"Ids of rules that are excluded everywhere."`
	Exclusions     []Exclusion `json:"exclusions" maxItems:"500" doc:"Rules that are left out below a path, or for one parameter."`
	CustomRules    string      `json:"custom_rules" maxLength:"131072" doc:"Rules of your own in SecLang, with ids from 1 to 99999."`
	MaxBodyBytes   int         `json:"max_body_bytes" minimum:"1024" maximum:"131072" doc:"How much of a body is inspected. The proxy buffers about 118 KiB of headers and body together; anything beyond that counts as larger."`
}

// New are the settings of a domain for which nothing is stored.
func New() Settings {
	return Settings{Mode: Detection, ParanoiaLevel: 1, RuleExclusions: []int{}, Exclusions: []Exclusion{}, MaxBodyBytes: maxBody}
}

// Engine are the settings as the engine has them, but for the custom rules. What is wrong with an exclusion is told, and it is left out.
func (s *Settings) Engine(tell func(wrong error)) engine.Settings {
	e := engine.Settings{Blocking: s.Mode == Blocking, Paranoia: s.ParanoiaLevel, MaxBody: s.MaxBodyBytes}
	add := func(x Exclusion) {
		if narrow, err := x.Engine(); err != nil {
			tell(err)
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

// Exclusion leaves a rule out for a part of the requests.
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

// Same tells whether two exclusions leave out the same.
func (x Exclusion) Same(y Exclusion) bool {
	y.Note = x.Note
	return x == y
}
