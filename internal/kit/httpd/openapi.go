package httpd

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

// Spec is the OpenAPI document of the registered routes.
func (r *Router) Spec(version string) *huma.OpenAPI {
	registry := wire.NewRegistry()
	errorSchema := &huma.Schema{
		Type: huma.TypeObject, Required: []string{"code", "message"},
		Properties: map[string]*huma.Schema{
			"code":    {Type: huma.TypeString, Enum: fault.Codes(), Description: "Stable word for what went wrong."},
			"message": {Type: huma.TypeString, Description: "A sentence for people."},
			"fields":  {Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}, Description: "What is wrong with which field of the request."},
			"details": {Description: "Further data, such as what depends on a row."},
		},
	}
	registry.Map()["Error"] = errorSchema
	failure := &huma.Response{
		Description: "It was refused or it failed; the error says why.",
		Content: jsonContent(&huma.Schema{Type: huma.TypeObject, Required: []string{"data", "error"}, Properties: map[string]*huma.Schema{
			"data": {Type: "null"}, "error": {Ref: "#/components/schemas/Error"},
		}}),
	}
	spec := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "Gateway", Version: version, Description: "Manages an edge gateway. Every answer is an envelope {data, error}."},
		Servers: []*huma.Server{{URL: Prefix}},
		Paths:   map[string]*huma.PathItem{},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"session": {Type: "apiKey", In: "cookie", Name: SessionCookie},
				"bearer":  {Type: "http", Scheme: "bearer"},
			},
		},
	}
	for _, path := range slices.Sorted(maps.Keys(r.byPath)) {
		item := &huma.PathItem{}
		for method, route := range r.byPath[path] {
			op := operation(registry, route, failure)
			switch method {
			case http.MethodGet:
				item.Get = op
			case http.MethodPost:
				item.Post = op
			case http.MethodPut:
				item.Put = op
			case http.MethodPatch:
				item.Patch = op
			case http.MethodDelete:
				item.Delete = op
			}
		}
		spec.Paths[path] = item
	}
	return spec
}

// SessionCookie is the name of the session's cookie.
const SessionCookie = "gateway_session"

func operation(registry huma.Registry, route *Route, failure *huma.Response) *huma.Operation {
	op := &huma.Operation{
		OperationID: route.ID, Tags: []string{route.Tag}, Summary: route.Summary,
		Responses:  map[string]*huma.Response{"default": failure},
		Extensions: map[string]any{"x-policy": route.Policy.String()},
	}
	if route.Policy.owner {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: SetupTokenHeader, In: "header", Description: "The token that the service prints at start; needed unless the request comes from the machine itself.", Schema: &huma.Schema{Type: huma.TypeString},
		})
	} else if !route.Policy.public {
		op.Security = []map[string][]string{{"session": {}}, {"bearer": {}}}
	}
	if route.Policy.bySession {
		op.Extensions["x-by-session"] = true
	}
	if route.Audit != "" {
		op.Extensions["x-audit"] = route.Audit
	}
	if len(route.Feeds) > 0 {
		op.Extensions["x-feeds"] = route.Feeds
	}
	params := planFor(route.In).params
	if route.WebSock {
		params = append(params, heartbeatPlan.params...)
	}
	for _, x := range params {
		p := &huma.Param{Name: x.name, In: "query", Description: x.doc, Schema: huma.SchemaFromType(registry, x.typ)}
		if x.path {
			p.In, p.Required = "path", true
		}
		op.Parameters = append(op.Parameters, p)
	}
	if route.Body != nil {
		op.RequestBody = &huma.RequestBody{Required: !route.Body.Optional, Content: jsonContent(route.Body.schema(registry, true))}
	}
	if route.Takes != "" {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{route.Takes: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	}
	ok := &huma.Response{Description: "Done."}
	switch {
	case route.Status == http.StatusFound:
		ok.Description = "The browser goes where Location says."
		ok.Headers = map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: huma.TypeString}}}
	case route.MIME != "":
		ok.Content = map[string]*huma.MediaType{route.MIME: {}}
	case route.WebSock:
		ok.Description = "A WebSocket; each text frame is one of these, or the heartbeat that was asked for."
		ok.Content = jsonContent(route.Out.schema(registry, false))
	default:
		ok.Content = jsonContent(&huma.Schema{Type: huma.TypeObject, Required: []string{"data", "error"}, Properties: map[string]*huma.Schema{
			"data": route.Out.schema(registry, false), "error": {Type: "null"},
		}})
	}
	op.Responses[strconv.Itoa(route.Status)] = ok
	return op
}

func (s *SchemaSource) schema(registry huma.Registry, input bool) *huma.Schema {
	schema := func(t reflect.Type) *huma.Schema {
		if input {
			return wire.Input(registry, t, s.Suffix, s.New, s.Only)
		}
		return wire.Output(registry, t)
	}
	if s.List {
		return &huma.Schema{Type: huma.TypeArray, Items: schema(s.Type)}
	}
	return schema(s.Type)
}

func jsonContent(s *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: s}}
}
