package ids

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// Bouncer is a program that may ask CrowdSec for its decisions.
type Bouncer struct {
	Name      string     `json:"name" doc:"Its name."`
	Address   string     `json:"address" doc:"Where it last asked from; empty when it never did."`
	Type      string     `json:"type" doc:"What it reports to be."`
	Version   string     `json:"version" doc:"Which version of that."`
	CreatedAt time.Time  `json:"created_at" doc:"When it was added."`
	LastPull  *time.Time `json:"last_pull" doc:"When it last asked; null when it never did."`
	Own       bool       `json:"own" doc:"Whether it is the gateway's own."`
}

type Bouncers struct {
	Bouncers []Bouncer `json:"bouncers" doc:"By name."`
	Error    string    `json:"error" doc:"Why they are not known; empty if they are."`
}

type NewBouncer struct {
	Name crowdsec.Name `json:"name" required:"true" doc:"Its name: lower-case letters, digits and hyphens."`
}

// MadeBouncer is a new bouncer with its key.
type MadeBouncer struct {
	Name string `json:"name" doc:"Its name."`
	Key  string `json:"key" doc:"API key of the bouncer. It is not shown again."`
}

// Machine is a machine that reports to CrowdSec.
type Machine struct {
	Name          string     `json:"name" doc:"Its name."`
	Address       string     `json:"address" doc:"Where it last reported from."`
	Version       string     `json:"version" doc:"Version of its CrowdSec."`
	Validated     bool       `json:"validated" doc:"Whether its reports count."`
	LastHeartbeat *time.Time `json:"last_heartbeat" doc:"When it was last heard of."`
	Own           bool       `json:"own" doc:"Whether it is the gateway itself, which reports what operators decide."`
}

type Machines struct {
	Machines []Machine `json:"machines" doc:"Machines that report."`
	Error    string    `json:"error" doc:"Why they are not known; empty if they are."`
}

// Collection is an installed set of parsers and scenarios.
type Collection struct {
	Name        string `json:"name" doc:"Its name at CrowdSec's hub."`
	Version     string `json:"version" doc:"Which version of it."`
	Description string `json:"description" doc:"What it is for."`
	Status      string `json:"status" doc:"Whether it is enabled, and as it was installed."`
}

// Collections lists the installed collections.
type Collections struct {
	Collections []Collection `json:"collections" doc:"By name."`
	Error       string       `json:"error" doc:"Why they are not known; empty if they are."`
}

func (r *Room) mountAccounts() {
	httpd.Handle(r.Router, http.MethodGet, "/ids/bouncers", httpd.Read, tag.Doc("ids.bouncer.list", "List the bouncers"),
		func(c *httpd.Call, _ struct{}) (Bouncers, error) {
			list, err := r.asked.bouncers.Ask(c, "", r.bouncers)
			return Bouncers{Bouncers: listed(list), Error: problem(c, err)}, nil
		})
	create := tag.Audited("ids.bouncer.create", "Add a bouncer. Its key is shown once")
	create.Creates = "/ids/bouncers/{name}"
	httpd.Handle(r.Router, http.MethodPost, "/ids/bouncers", httpd.Write.Here(), create,
		func(c *httpd.Call, in struct{ Body NewBouncer }) (MadeBouncer, error) {
			return r.addBouncer(c, in.Body.Name)
		})
	httpd.Handle(r.Router, http.MethodDelete, "/ids/bouncers/{name}", httpd.Write.Here(), tag.Audited("ids.bouncer.delete", "Delete a bouncer"),
		func(c *httpd.Call, in struct {
			Name string `path:"name" doc:"Name of the bouncer."`
		}) (resource.Deleted, error) {
			return resource.Deleted{ID: in.Name}, r.removeBouncer(c, in.Name)
		})
	httpd.Handle(r.Router, http.MethodGet, "/ids/machines", httpd.Read, tag.Doc("ids.machine.list", "List the machines that report to CrowdSec"),
		func(c *httpd.Call, _ struct{}) (Machines, error) {
			list, err := r.asked.machines.Ask(c, "", r.machines)
			return Machines{Machines: listed(list), Error: problem(c, err)}, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/ids/collections", httpd.Read, tag.Doc("ids.collection.list", "List the installed CrowdSec collections"),
		func(c *httpd.Call, _ struct{}) (Collections, error) {
			list, err := r.asked.collections.Ask(c, "", r.collections)
			return Collections{Collections: listed(list), Error: problem(c, err)}, nil
		})
}

// questions caches answers of CrowdSec and of its tool, which is slow and needs a process each time.
type questions struct {
	decisions   *host.Question[[]Decision]
	alerts      *host.Question[[]rawAlert]
	alert       *host.Question[rawAlert]
	bouncers    *host.Question[[]Bouncer]
	machines    *host.Question[[]Machine]
	collections *host.Question[[]Collection]
}

func newQuestions() questions {
	return questions{
		host.NewQuestion[[]Decision](), host.NewQuestion[[]rawAlert](), host.NewQuestion[rawAlert](),
		host.NewQuestion[[]Bouncer](), host.NewQuestion[[]Machine](), host.NewQuestion[[]Collection](),
	}
}

// forgetDecisions drops cached answers after a decision was made or ended.
func (q *questions) forgetDecisions() {
	q.decisions.Forget()
	q.alerts.Forget()
	q.alert.Forget()
}

// listed returns an empty list instead of nil.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// tool runs CrowdSec's own tool, which reads its database: CrowdSec need not be running.
func (r *Room) tool(ctx context.Context, command host.Command, into any) error {
	out, err := r.Host.Run(ctx, command, host.Input{})
	if err != nil {
		return toolError(err)
	}
	if out.Stdout == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(out.Stdout), into); err != nil {
		return fmt.Errorf("reading the answer of cscli: %w", err)
	}
	return nil
}

func (r *Room) bouncers(ctx context.Context) ([]Bouncer, error) {
	var raw []struct {
		Name      string    `json:"name"`
		Address   string    `json:"ip_address"`
		Type      string    `json:"type"`
		Version   string    `json:"version"`
		CreatedAt time.Time `json:"created_at"`
		LastPull  time.Time `json:"last_pull"`
	}
	list := []Bouncer{}
	err := r.tool(ctx, crowdsec.Bouncers, &raw)
	for _, s := range raw {
		// Debian's firewall bouncer reports a hyphen as its version.
		b := Bouncer{Name: s.Name, Address: s.Address, Type: s.Type, Version: strings.Trim(s.Version, "-"), CreatedAt: s.CreatedAt.UTC(), Own: isOwn(s.Name)}
		if s.Address != "" { // until then, CrowdSec has its creation time there
			pulled := s.LastPull.UTC()
			b.LastPull = &pulled
		}
		list = append(list, b)
	}
	return list, err
}

func (r *Room) machines(ctx context.Context) ([]Machine, error) {
	var raw []struct {
		Name      string     `json:"machineId"`
		Address   string     `json:"ipAddress"`
		Version   string     `json:"version"`
		Validated bool       `json:"isValidated"`
		Heartbeat *time.Time `json:"last_heartbeat"`
	}
	list := []Machine{}
	err := r.tool(ctx, crowdsec.Machines, &raw)
	for _, s := range raw {
		m := Machine{Name: s.Name, Address: s.Address, Version: s.Version, Validated: s.Validated, Own: s.Name == ownAccount}
		if s.Heartbeat != nil && !s.Heartbeat.IsZero() {
			heard := s.Heartbeat.UTC()
			m.LastHeartbeat = &heard
		}
		list = append(list, m)
	}
	return list, err
}

func (r *Room) collections(ctx context.Context) ([]Collection, error) {
	var raw struct {
		Collections []struct {
			Name        string `json:"name"`
			Version     string `json:"local_version"`
			Description string `json:"description"`
			Status      string `json:"status"`
		} `json:"collections"`
	}
	list := []Collection{}
	err := r.tool(ctx, crowdsec.Collections, &raw)
	for _, s := range raw.Collections {
		list = append(list, Collection(s))
	}
	return list, err
}

// find reports whether a bouncer exists.
func (r *Room) find(ctx context.Context, name string) (bool, error) {
	list, err := r.bouncers(ctx)
	for _, b := range list {
		if b.Name == name {
			return true, nil
		}
	}
	return false, err
}

func (r *Room) addBouncer(c *httpd.Call, name crowdsec.Name) (MadeBouncer, error) {
	if isOwn(name.String()) {
		return MadeBouncer{}, fault.Field("name", "belongs to the gateway itself")
	}
	if there, err := r.find(c, name.String()); err != nil {
		return MadeBouncer{}, away(err)
	} else if there {
		return MadeBouncer{}, fault.Taken(map[string]string{"name": "belongs to another bouncer"})
	}
	made := MadeBouncer{Name: name.String()}
	return made, r.Audit.Do(c, "ids.bouncer.create", made.Name, func() (any, error) {
		key, err := r.makeBouncer(c, made.Name)
		r.asked.bouncers.Forget()
		made.Key = key.String()
		return nil, away(err)
	})
}

func (r *Room) removeBouncer(c *httpd.Call, name string) error {
	if isOwn(name) {
		return fault.New(fault.Conflict, "This is the gateway's own bouncer. Turn off blocking in the settings instead.")
	}
	there, err := r.find(c, name)
	if err != nil {
		return away(err)
	}
	if !there {
		return fault.New(fault.NotFound, "This bouncer does not exist.")
	}
	if crowdsec.IsBouncer(name) != nil {
		return fault.New(fault.Conflict, "The gateway cannot delete a bouncer with this name. Remove it with cscli bouncers delete.")
	}
	return r.Audit.Do(c, "ids.bouncer.delete", name, func() (any, error) {
		_, err := r.Host.Run(c, crowdsec.BouncerRemove, host.Input{Args: []string{name}})
		r.asked.bouncers.Forget()
		return nil, away(toolError(err))
	})
}
