package proxy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

type Path struct{ value.Text[pathGrammar] }

type pathGrammar struct{}

var pathForm = regexp.MustCompile(`^/([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*$`)

func (pathGrammar) Example() string { return "/api" }

func (pathGrammar) Parse(s string) (string, error) {
	if len(s) > 500 || !pathForm.MatchString(s) {
		return "", errors.New("must start with / and be the path of a URL, with other characters written as %XX")
	}
	return s, nil
}

// StatusList is a list of HTTP statuses and ranges of statuses.
type StatusList struct{ value.Text[statusListGrammar] }

type statusListGrammar struct{}

func (statusListGrammar) Example() string { return "200-399" }

func (statusListGrammar) Parse(s string) (string, error) {
	var parts []string
	for part := range strings.SplitSeq(s, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			to = from
		}
		low, err1 := strconv.Atoi(from)
		high, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || low < 100 || high > 599 || low > high || len(parts) == 20 {
			return "", errors.New("must be status codes or ranges, for example 200-399 or 200,204")
		}
		if low == high {
			parts = append(parts, strconv.Itoa(low))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", low, high))
		}
	}
	return strings.Join(parts, ","), nil
}

// Backend is a pool of servers for sites.
type Backend struct {
	resource.Meta
	Name                value.Line `json:"name" required:"true" maxLength:"120" doc:"Name of the backend."`
	Scheme              string     `json:"scheme" enum:"http,https" doc:"Protocol to the servers."`
	LBAlgorithm         string     `json:"lb_algorithm" enum:"roundrobin,leastconn,source" doc:"Load balancing: round robin, least connections, or by client address."`
	Websocket           bool       `json:"websocket" doc:"Keep idle WebSocket connections for one hour."`
	ForceHTTP1          bool       `json:"force_http1" doc:"Use HTTP/1.1 to the servers, even if they offer HTTP/2."`
	Active              bool       `json:"active" doc:"When off, its sites answer 503."`
	HealthCheckEnabled  bool       `json:"health_check_enabled" doc:"Check each server regularly."`
	HealthCheckPath     Path       `json:"health_check_path" required:"true" doc:"What to ask for."`
	HealthCheckMethod   string     `json:"health_check_method" enum:"GET,HEAD,OPTIONS" doc:"Method."`
	HealthCheckHost     value.Host `json:"health_check_host" doc:"Host header of the check. If empty, the address of the first server if it is a name, otherwise localhost."`
	HealthCheckExpect   StatusList `json:"health_check_expect" required:"true" doc:"Healthy status codes."`
	HealthCheckInterval int        `json:"health_check_interval_seconds" minimum:"1" maximum:"3600" doc:"Seconds between two checks."`
	VerifyTLS           bool       `json:"verify_tls" doc:"Refuse servers whose certificate the system does not trust."`
	Servers             []Server   `json:"servers" readOnly:"true" db:"-" doc:"Its servers."`
}

func (b *Backend) Label() string { return b.Name.String() }

func (r *Room) backendKind() resource.Kind[Backend] {
	return resource.Kind[Backend]{
		Name: "proxy.backend", Title: "backend", Path: "/backends", Table: "proxy_backends", Order: "name", Feeds: feeds,
		New: usualBackend, NewID: r.takeSpare,
		Check: func(ctx context.Context, tx *db.Tx, was, now *Backend) error {
			if now != nil {
				return nil
			}
			users, err := backendUsers(ctx, tx, was.ID)
			if err != nil {
				return err
			}
			return resource.InUse("the backend "+was.Name.String(), users)
		},
		Join: r.joinServers, Joins: []string{"proxy_servers"},
	}
}

// backendUsers returns the domains and routing rules that use a backend.
func backendUsers(ctx context.Context, tx *db.Tx, id uuid.UUID) (users []resource.User, err error) {
	rows, err := tx.Query(ctx, `
		SELECT 'proxy.domain', id, name FROM proxy_domains WHERE backend_id = $1
		UNION ALL
		SELECT 'proxy.routing-rule', r.id, d.name || r.path_prefix FROM proxy_routing_rules r JOIN proxy_domains d ON d.id = r.domain_id WHERE r.backend_id = $1
		ORDER BY 1, 3`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var u resource.User
		if err := rows.Scan(&u.Kind, &u.ID, &u.Name); err != nil {
			return nil, err
		}
		users = append(users, u)
	}
	return users, rows.Err()
}

// joinServers adds the servers to their backends.
func (r *Room) joinServers(ctx context.Context, q db.Querier, rows []*Backend) error {
	ids := make([]uuid.UUID, len(rows))
	for i, b := range rows {
		ids[i] = b.ID
	}
	servers, err := r.servers.Where(ctx, q, "backend_id = ANY ($1)", ids)
	if err != nil {
		return err
	}
	of := map[uuid.UUID][]Server{}
	for _, s := range servers {
		of[s.BackendID] = append(of[s.BackendID], s)
	}
	for _, b := range rows {
		b.Servers = slices.Concat([]Server{}, of[b.ID])
	}
	return nil
}

// ServerName is the name of a server. HAProxy needs it as one word; see Word.
type ServerName struct{ value.Text[serverNameGrammar] }

type serverNameGrammar struct{}

var serverWord = regexp.MustCompile(`^[A-Za-z0-9_:-]{1,100}$`)

func (serverNameGrammar) Example() string { return "web-1" }

func (serverNameGrammar) Parse(s string) (string, error) {
	if !serverWord.MatchString(word(s)) {
		return "", errors.New("must be at most 100 letters, digits, hyphens, underscores, dots, colons or spaces")
	}
	return s, nil
}

// word replaces whitespace and dots, which HAProxy does not allow in names, by underscores.
func word(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || unicode.IsSpace(r) {
			return '_'
		}
		return r
	}, name)
}

// Word returns the name as HAProxy and its statistics have it. It is empty if the row is older than the form of names.
func (n ServerName) Word() ServerName {
	parsed, _ := value.Parse[ServerName](word(n.String()))
	return parsed
}

type Server struct {
	resource.Meta
	BackendID uuid.UUID  `json:"backend_id" required:"true" doc:"Backend that it belongs to."`
	Name      ServerName `json:"name" required:"true" doc:"Name of the server. In the proxy, its whitespace and dots are underscores."`
	Address   value.Host `json:"address" required:"true" doc:"Host name or IP address."`
	Port      int        `json:"port" required:"true" minimum:"1" maximum:"65535" doc:"Port that it listens on."`
	Weight    int        `json:"weight" minimum:"0" maximum:"256" doc:"Share of the requests; with 0 it gets no new ones."`
	Backup    bool       `json:"backup" doc:"Only used while every other server is down."`
	Active    bool       `json:"active" doc:"When off, it gets no requests."`
}

func (s *Server) Label() string { return s.Name.String() }

func serverKind() resource.Child[Server] {
	return resource.Child[Server]{
		Kind: resource.Kind[Server]{
			Name: "proxy.server", Title: "server", Path: "/backend-servers", Table: "proxy_servers", Order: "created_at", Feeds: feeds, Natural: []string{"backend_id", "name"},
			New: func() Server { return Server{Weight: 100, Active: true} },
		},
		Under: "/backends/{parent}/servers", Column: "backend_id", Parent: "proxy_backends",
	}
}
