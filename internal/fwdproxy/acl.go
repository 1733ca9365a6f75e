package fwdproxy

import (
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// ACL allows or denies the requests that it matches. The first that matches, by priority, decides; what none matches is
// allowed.
type ACL struct {
	resource.Meta
	Name     value.Line `json:"name" required:"true" maxLength:"120" doc:"Name of the entry."`
	Type     string     `json:"type" required:"true" enum:"src,dst,dstdomain,dstdom_regex,url_regex,port,method,time" doc:"What of a request is looked at."`
	Value    string     `json:"value" required:"true" maxLength:"4096" doc:"What it is compared with, in the form of the type; several are separated by blanks."`
	Action   string     `json:"action" required:"true" enum:"allow,deny" doc:"What becomes of a request that matches."`
	Priority int64      `json:"priority" doc:"Lower comes first. Without one a new entry goes last."`
	Active   bool       `json:"active" doc:"Off, the entry is kept and has no effect."`
}

// Label is how people know it.
func (a *ACL) Label() string { return a.Name.String() }

var acls = resource.Kind[ACL]{
	Name: "forward-proxy.acl", Title: "access list entry", Path: "/forward-proxy/acls", Table: "fwdproxy_acls", Order: "priority, created_at", Feeds: feeds[:1],
	New: func() ACL { return ACL{Active: true} },
}
