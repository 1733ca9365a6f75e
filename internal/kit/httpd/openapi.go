package httpd

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

// Spec returns the OpenAPI document of the registered routes.
func (r *Router) Spec(version string) *huma.OpenAPI {
	registry := wire.NewRegistry()
	errorSchema := &huma.Schema{
		Type: huma.TypeObject, Required: []string{"code", "message"},
		Properties: map[string]*huma.Schema{
			"code":    {Type: huma.TypeString, Enum: fault.Codes(), Description: "Stable code of the error."},
			"message": {Type: huma.TypeString, Description: "The message as a sentence."},
			"fields":  {Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}, Description: "What is wrong with each field of the request."},
			"details": {Description: "Further data, for example what depends on a row."},
		},
	}
	registry.Map()["Error"] = errorSchema
	registry.Map()["Failure"] = &huma.Schema{Type: huma.TypeObject, Required: []string{"data", "error"}, Properties: map[string]*huma.Schema{
		"data": {Type: "null", Description: "Always null: there is no answer."}, "error": {Ref: "#/components/schemas/Error"},
	}}
	spec := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Gateway", Version: version, Description: "Manages an edge gateway. Every answer is an envelope {data, error}.",
			License: &huma.License{Name: "The terms that you received the gateway under", Identifier: "LicenseRef-Gateway"},
		},
		Servers: []*huma.Server{{URL: Prefix}},
		Paths:   map[string]*huma.PathItem{},
		Components: &huma.Components{
			Schemas:   registry,
			Responses: map[string]*huma.Response{failed: failure("The request was refused or failed; the error has the reason.")},
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"session": {Type: "apiKey", In: "cookie", Name: SessionCookie},
				"bearer":  {Type: "http", Scheme: "bearer"},
			},
		},
	}
	for _, r := range refusals {
		spec.Components.Responses[r.name] = failure(r.text)
	}
	for _, path := range slices.Sorted(maps.Keys(r.byPath)) {
		item := &huma.PathItem{}
		for method, route := range r.byPath[path] {
			op := operation(registry, route)
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

const SessionCookie = "gateway_session"

// failed is the name of the generic error response.
const failed = "Failed"

// refusals are the responses to requests that are refused, and the routes that have them.
var refusals = []struct {
	kind       fault.Kind
	name, text string
	of         func(r *Route, params []param) bool
}{
	{fault.Invalid, "Invalid", "The request is malformed, or a value is not accepted: the error names each field.", func(r *Route, params []param) bool {
		return r.mutation || slices.ContainsFunc(params, func(p param) bool { return !p.path })
	}},
	{fault.Unauthenticated, "Unauthenticated", "There is no valid session or token.", func(r *Route, _ []param) bool { return !r.Policy.public }},
	{fault.Forbidden, "Forbidden", "The caller may not do this, or the request came from another site.", func(r *Route, _ []param) bool { return !r.Policy.public || r.mutation }},
	{fault.NotFound, "NotFound", "This does not exist.", func(_ *Route, params []param) bool {
		return slices.ContainsFunc(params, func(p param) bool { return p.path })
	}},
	{fault.Conflict, "Conflict", "This is not possible as things are: something else has the same name, uses it, or waits for a confirmation.", func(r *Route, _ []param) bool { return r.mutation || r.Policy.owner }},
	{fault.Stale, "Stale", "It has changed since it was read: If-Match does not name its state.", func(r *Route, _ []param) bool { return r.mutation }},
	{fault.TooLarge, "TooLarge", "The body is too large.", func(r *Route, _ []param) bool { return r.mutation }},
	{fault.UnsupportedMedia, "UnsupportedMediaType", "The body has another type than the route takes.", func(r *Route, _ []param) bool { return r.mutation }},
	{fault.TooMany, "TooManyRequests", "There are too many at once, or too many failed. Retry-After says when to try again.", func(r *Route, _ []param) bool {
		return r.WebSock || r.mutation && (r.Policy.public || r.Policy.owner)
	}},
}

func failure(text string) *huma.Response {
	return &huma.Response{Description: text, Content: jsonContent(&huma.Schema{Ref: "#/components/schemas/Failure"})}
}

// refuse documents how a route refuses requests. A route with none of the known refusals gets the generic one.
func refuse(op *huma.Operation, route *Route, params []param) {
	to := func(name string) *huma.Response { return &huma.Response{Ref: "#/components/responses/" + name} }
	op.Responses["default"] = to(failed)
	for _, r := range refusals {
		if r.of(route, params) {
			op.Responses[strconv.Itoa(r.kind.Status())] = to(r.name)
		}
	}
	if len(op.Responses) == 1 {
		op.Responses["4XX"] = to(failed)
	}
}

func operation(registry huma.Registry, route *Route) *huma.Operation {
	op := &huma.Operation{
		OperationID: route.ID, Tags: []string{string(route.Tag)}, Summary: route.Summary,
		Responses:  map[string]*huma.Response{},
		Security:   []map[string][]string{},
		Extensions: map[string]any{"x-policy": route.Policy.String()},
	}
	if route.Policy.owner {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: SetupTokenHeader, In: "header", Description: "The token that the service prints at start; required unless the request comes from the machine itself.", Schema: &huma.Schema{Type: huma.TypeString},
		})
	} else if !route.Policy.public {
		op.Security = []map[string][]string{{"session": {}}, {"bearer": {}}}
	}
	if route.Policy.bySession {
		op.Extensions["x-by-session"] = true
	}
	if route.WebSock {
		op.Extensions["x-websocket"] = true
	}
	if where := route.Policy.Where(); where != "" {
		op.Extensions["x-where"] = where
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
	refuse(op, route, params)
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
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
		for media := range strings.SplitSeq(route.Takes, ", ") {
			op.RequestBody.Content[media] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
		}
	}
	ok := &huma.Response{Description: "Done."}
	switch {
	case route.Status == http.StatusFound:
		ok.Description = "The browser goes where Location says."
		ok.Headers = map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: huma.TypeString}}}
	case route.MIME != "":
		ok.Content = map[string]*huma.MediaType{route.MIME: {}}
	case route.WebSock:
		ok.Description = "A WebSocket. Each text frame is one of these, or a requested heartbeat."
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
			return wire.Input(registry, t, s.Suffix, s.New, s.Only, s.Defaults)
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
