package agent

import (
	"encoding/json"
	"net/http"
	"time"
)

// Status is what the agent reports about itself.
type Status struct {
	Version   string            `json:"version"`
	Since     time.Time         `json:"since"`
	Domains   int               `json:"domains"`
	Engines   int               `json:"engines"`
	Builds    uint64            `json:"builds"`
	Inspected uint64            `json:"inspected"`
	Denied    uint64            `json:"denied"`
	Failed    map[Reason]uint64 `json:"failed"`
	Dropped   uint64            `json:"dropped"`   // records
	Unwritten uint64            `json:"unwritten"` // lines about blocked requests
	Source    string            `json:"source"`
	// Configuration is the Fingerprint of the configuration in use, and Unusable how many of its domains are inspected with something
	// else, or not at all.
	Configuration string    `json:"configuration"`
	Unusable      int       `json:"unusable"`
	Loaded        time.Time `json:"loaded"` // when the configuration was last confirmed
}

// Reporter answers GET /status.
type Reporter struct {
	Version  string
	Since    time.Time
	Agent    *Agent
	Source   *Source
	Recorder *Recorder
}

func (r *Reporter) Status() Status {
	c := r.Source.current.Load()
	s := Status{
		Version: r.Version, Since: r.Since, Domains: len(c.domains), Engines: r.Source.set.Engines(), Builds: r.Source.set.Builds(),
		Dropped: r.Recorder.Dropped(), Unwritten: r.Recorder.lines.dropped.Load(), Source: c.from, Loaded: c.at,
		Configuration: c.fingerprint, Unusable: len(c.unusable),
	}
	s.Inspected, s.Denied, s.Failed = r.Agent.Counts()
	return s
}

func (r *Reporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r.Status())
}
