package fwdproxy

import (
	"edge.internal/gateway/internal/fwdproxy/verdict"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// ACL allows or denies the requests that it matches. The first matching entry by priority decides; a request that matches none is
// allowed.
type ACL struct {
	resource.Meta
	Name     value.Line `json:"name" required:"true" maxLength:"120" doc:"Name of the entry."`
	Type     string     `json:"type" required:"true" enum:"src,dst,dstdomain,dstdom_regex,url_regex,port,method,time" doc:"What to match on: the client's address, the server's address, the server's name (exactly, or by a regular expression), the URL, the port, the method, or the time of day."`
	Value    value.Line `json:"value" required:"true" maxLength:"4096" doc:"Values to match, separated by spaces; one match is enough. src, dst: addresses, networks, ranges like 10.0.0.5-10.0.0.9. dstdomain: www.example.net, or .example.net to include all subdomains. dstdom_regex, url_regex: RE2 regular expressions, searched in the name (ignoring case) or in the percent-decoded URL, which is host:port for CONNECT. port: 8443 or 8000-8999; an allowed port is also open to CONNECT. method: GET, POST, CONNECT. time: days and hours in the gateway's time zone, for example MTWHF 08:00-17:59 (Sunday S, Thursday H, Saturday A, working days D)."`
	Action   string     `json:"action" required:"true" enum:"allow,deny" doc:"Action for matching requests."`
	Priority int64      `json:"priority" doc:"Lower comes first. By default a new entry goes last."`
	Active   bool       `json:"active" doc:"When off, the entry is kept but not applied."`
}

func (a *ACL) Validate() error {
	var c check.List
	if err := verdict.Check(a.Type, a.Value.String()); err != nil {
		c.Add("value", "%s", err)
	}
	return c.Err()
}

func (a *ACL) Label() string { return a.Name.String() }

var acls = resource.Kind[ACL]{
	Name: "forward-proxy.acl", Title: "access list entry", Path: "/forward-proxy/acls", Table: "fwdproxy_acls", Order: "priority, created_at", Feeds: feeds[:1],
	New: func() ACL { return ACL{Active: true} },
}
