package system

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// renderWithin limits a render of everything.
const renderWithin = 30 * time.Second

// Rendered is the result of a render of everything.
type Rendered struct {
	OK       bool              `json:"ok" doc:"Whether everything is live."`
	Rendered []string          `json:"rendered" doc:"Components that are live."`
	Errors   map[string]string `json:"errors" doc:"Why the others are not, by component."`
}

// Preview is a component's configuration as it would be written.
type Preview struct {
	Generator string               `json:"generator" doc:"Which component."`
	Files     []apply.RenderedFile `json:"files" doc:"The files as they would be written."`
	Diff      string               `json:"diff" doc:"Unified diff against what is live; empty when they are the same."`
}

func (r *Room) mountComponents() {
	httpd.Handle(r.Router, http.MethodGet, "/system/components", httpd.Read.Offline(), tag.Doc("system.components", "State of all components"),
		func(c *httpd.Call, _ struct{}) ([]apply.Status, error) {
			list := r.Engine.Statuses()
			for i := range list {
				list[i] = visible(c, list[i])
			}
			return list, nil
		})
	httpd.Stream(r.Router, "/system/components/live", httpd.Read.Offline(), tag.Doc("system.components.live", "All components, then each change"),
		func(ctx context.Context, _ struct{}, send func(apply.Status) error) error {
			return r.Engine.Follow(ctx, func(s apply.Status) error { return send(visible(ctx, s)) })
		})
	httpd.Handle(r.Router, http.MethodPost, "/system/render-configs", httpd.Write.Offline().Here(), tag.Audited("system.render-configs", "Render and apply the saved configuration of all components"),
		func(c *httpd.Call, _ struct{}) (Rendered, error) {
			ctx, cancel := context.WithTimeout(c, renderWithin)
			defer cancel()
			var out Rendered
			err := r.Audit.Do(c, "system.render-configs", "every component", func() (any, error) {
				applied, failed := r.Engine.ApplyAll(ctx)
				out = Rendered{OK: len(failed) == 0, Rendered: names(applied), Errors: map[string]string{}}
				for id, why := range failed {
					out.Errors[string(id)] = why
				}
				return out, nil
			})
			return out, err
		})
	reload := tag.Audited("system.proxy-reload", "Reload the reverse proxy")
	reload.Feeds = []string{string(apply.ReverseProxy)}
	httpd.Handle(r.Router, http.MethodPost, "/system/proxy-reload", httpd.Write.Offline().Here(), reload,
		func(c *httpd.Call, _ struct{}) (apply.Status, error) {
			var s apply.Status
			err := r.Audit.Do(c, "system.proxy-reload", string(apply.ReverseProxy), func() (any, error) {
				s = r.Engine.Refresh(c, apply.ReverseProxy, true)
				about := s
				about.Detail = "" // viewers read the audit log, too
				return about, nil
			})
			resource.Applied(c, apply.Outcome{apply.ReverseProxy: s.State})
			return s, err
		})
	httpd.Handle(r.Router, http.MethodGet, "/system/config-preview", httpd.Read, tag.Doc("system.config-preview", "Render a component without writing anything"),
		func(c *httpd.Call, in struct {
			Generator string `query:"generator" doc:"Which component."`
		}) (Preview, error) {
			known := names(r.Engine.Components())
			if !slices.Contains(known, in.Generator) {
				return Preview{}, fault.Field("generator", "must be one of %s", strings.Join(known, ", "))
			}
			files, diffs, err := r.Engine.Render(c, apply.ID(in.Generator))
			p := Preview{Generator: in.Generator, Files: files}
			for _, d := range diffs {
				p.Diff += d.Diff
			}
			return p, err
		})
}

// visible hides the output of daemons from callers who are not administrators.
func visible(ctx context.Context, s apply.Status) apply.Status {
	if actor.From(ctx).Role != actor.Admin {
		s.Detail = ""
	}
	return s
}

func names[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = fmt.Sprint(x)
	}
	return out
}
