package proxy

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// No request finds a site whose routes or headers are not added yet, or already removed.
func TestWhatASiteNeedsIsThereBeforeIt(t *testing.T) {
	with := func(names ...string) *Config {
		c := &Config{}
		for i, name := range names {
			id := uuid.UUID{15: byte(i + 1)}
			c.Domains = append(c.Domains, Domain{Meta: resource.Meta{ID: id}, Name: value.Must[value.SiteName](name), Active: true, WWWRedirect: wwwNone})
			c.Rules = append(c.Rules, Rule{DomainID: id, PathPrefix: value.Must[Path]("/api"), Active: true})
			c.Headers = append(c.Headers, Header{DomainID: id, Name: value.Must[HeaderName]("X-Test"), Value: value.Must[HeaderValue](name), Operation: headerSet})
		}
		return c
	}
	one, two := with("a.example.net"), with("a.example.net", "b.example.net")
	for _, x := range []struct {
		was, now *Config
		verb     string
		maps     []string
	}{
		{one, two, "add", []string{"maps/headers.map", "maps/routes.map", "maps/hosts.map"}},
		{two, one, "del", []string{"maps/hosts.map", "maps/routes.map", "maps/headers.map"}},
	} {
		commands, ok := difference(x.was, x.now)
		var maps []string
		for _, c := range commands {
			if c.Words[0] != x.verb {
				t.Errorf("%v instead of %s", c.Words, x.verb)
			}
			maps = append(maps, c.Words[2])
		}
		if !ok || !slices.Equal(maps, x.maps) {
			t.Errorf("%s: %v, %v", x.verb, maps, ok)
		}
	}
}
