package proxy

import (
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Publish adds a site to a draft: its domain, and a backend with a single server.
func (r *Room) Publish(d *resource.Bundle, name value.SiteName, scheme string, address value.Host, port int) {
	backend := d.Create(r.backends.Name, map[string]any{"name": name, "scheme": scheme})
	d.Create(r.servers.Name, map[string]any{"backend_id": backend, "name": "server-1", "address": address, "port": port})
	d.Create(r.domains.Name, map[string]any{"name": name, "backend_id": backend})
}
