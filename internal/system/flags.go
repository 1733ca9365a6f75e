package system

import (
	"net/http"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// Flag is a global switch.
type Flag struct {
	Enabled bool `json:"enabled" given:"true" doc:"Whether it is on."`
}

// Retention says how long things are kept.
type Retention struct {
	AuditDays  int `json:"audit_days" minimum:"0" maximum:"3650" doc:"Days to keep audit entries; 0 keeps them forever."`
	BackupKeep int `json:"backup_keep" minimum:"1" maximum:"1000" doc:"How many successful backups are kept."`
	// The history is limited by both.
	HistoryDays int `json:"history_days" minimum:"1" maximum:"3650" doc:"Days to keep the history of changes."`
	HistorySets int `json:"history_sets" minimum:"100" maximum:"1000000" doc:"How many change sets are kept at most."`
}

func (r *Room) mountFlags() {
	r.mountIPv6()
	r.mountFlag("maintenance", "Whether the gateway shows a maintenance page", func(f *Flags) *bool { return &f.Maintenance }, apply.ReverseProxy)
	r.mountFlag("auto-update", "Whether updates are installed automatically", func(f *Flags) *bool { return &f.AutoUpdate })

	httpd.Handle(r.Router, http.MethodGet, "/system/retention", httpd.Read.Offline(), tag.Doc("system.retention.get", "Read the retention settings"),
		func(*httpd.Call, struct{}) (Retention, error) { return r.deps.Flags().Retention, nil })
	httpd.Handle(r.Router, http.MethodPut, "/system/retention", httpd.Write.Offline().Here(), tag.Audited("system.retention", "Change the retention settings"),
		func(c *httpd.Call, in struct{ Body httpd.Onto[Retention] }) (Retention, error) {
			now, err := in.Body.Decode(r.deps.Flags().Retention)
			if err != nil {
				return Retention{}, err
			}
			return now, r.Audit.Do(c, "system.retention", "retention", func() (any, error) {
				return now, r.deps.SetFlags(func(f *Flags) { f.Retention = now })
			})
		})
}

// mountFlag adds the two routes of a flag. A change is answered after the components that it feeds have applied it.
func (r *Room) mountFlag(name, summary string, field func(*Flags) *bool, feeds ...apply.ID) {
	path, action := "/system/"+name, "system."+name
	change := tag.Audited(action, "Set: "+summary)
	for _, id := range feeds {
		change.Feeds = append(change.Feeds, string(id))
	}
	httpd.Handle(r.Router, http.MethodGet, path, httpd.Read.Offline(), tag.Doc(action+".get", summary),
		func(*httpd.Call, struct{}) (Flag, error) {
			f := r.deps.Flags()
			return Flag{*field(&f)}, nil
		})
	httpd.Handle(r.Router, http.MethodPost, path, httpd.Write.Offline().Here(), change,
		func(c *httpd.Call, in struct{ Body Flag }) (Flag, error) {
			err := r.Audit.Do(c, action, name, func() (any, error) {
				return in.Body, r.deps.SetFlags(func(f *Flags) { *field(f) = in.Body.Enabled })
			})
			if err != nil {
				return Flag{}, err
			}
			outcome := apply.Outcome{}
			for _, id := range feeds {
				outcome[id] = r.Engine.Refresh(c, id, false).State
			}
			resource.Applied(c, outcome)
			return in.Body, nil
		})
}
