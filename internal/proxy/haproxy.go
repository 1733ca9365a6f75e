package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
)

const unit = haproxy.Unit

// capableFor is how long HAProxy's capabilities are cached: a package upgrade may change them.
const capableFor = time.Minute

// capabilities returns the capabilities of the installed HAProxy; zero if there is none.
func (r *Room) capabilities(ctx context.Context) Features {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.Clock.Now(); now.Sub(r.capableAt) > capableFor || r.capable.Version == "" {
		out, err := r.Host.Run(ctx, haproxy.Version, host.Input{})
		if err != nil {
			return r.capable
		}
		r.capable, r.capableAt = features(out.Stdout), now
	}
	return r.capable
}

// reload makes HAProxy read its files. It keeps serving in the meantime, and keeps its old configuration if it refuses them.
func (r *Room) reload(ctx context.Context, _ *Config, _ []host.File) error {
	r.reloads.Add(1)
	_, err := r.Host.ProxyReload(ctx)
	if errors.Is(err, host.ErrNotRunning) {
		err = r.Host.Restart(ctx, unit)
	}
	r.reread.Store(err == nil)
	return err
}

// verify checks that HAProxy runs with the configuration: its shape by the mark, and everything that can change at runtime by asking. If
// it has just read its files, the mark is enough.
func (r *Room) verify(ctx context.Context, c *Config, _ []host.File) error {
	m := c.model()
	main, err := m.main()
	if err != nil {
		return err
	}
	reread := r.reread.Swap(false)
	process, err := r.Host.ProxyProcess(ctx)
	if err != nil {
		return err
	}
	info, err := r.Host.ProxyAsk(ctx, ask("show", "info"))
	if err != nil {
		return fmt.Errorf("haproxy does not answer: %w", err)
	}
	if has := described(info[0]); has != hex.EncodeToString(main.mark) {
		return fmt.Errorf("haproxy runs with another configuration (%s)", has)
	}
	if !reread {
		if err := r.compare(ctx, m); err != nil {
			return err
		}
	}
	r.keepSpares(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worker, r.shape = process.PID, &m.shape
	return nil
}

// compare checks everything that can change while HAProxy runs.
func (r *Room) compare(ctx context.Context, m *model) error {
	questions := []haproxy.Question{ask("show", "servers", "state"), ask("show", "ssl", "crt-list", "-n", certificateList)}
	for _, place := range mapPlaces {
		questions = append(questions, ask("show", "map", mapName(place)))
	}
	answers, err := r.Host.ProxyAsk(ctx, questions...)
	if err != nil {
		return fmt.Errorf("haproxy does not answer: %w", err)
	}
	if err := m.compareServers(answers[0]); err != nil {
		return err
	}
	if err := m.compareCertificates(answers[1]); err != nil {
		return err
	}
	for i, place := range mapPlaces {
		if err := compareMap(place, m.files()[place], answers[2+i]); err != nil {
			return err
		}
	}
	return nil
}

// described returns the mark of HAProxy's running configuration.
func described(info string) string {
	for line := range strings.Lines(info) {
		if mark, ok := strings.CutPrefix(line, "description: "); ok {
			return strings.TrimSpace(mark)
		}
	}
	return "unmarked"
}

// compareMap checks a running map.
func compareMap(place host.Place, want entries, output string) error {
	count := 0
	for line := range strings.Lines(output) {
		// Each line has a reference, a key and a value.
		_, line, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		key, text, _ := strings.Cut(line, " ")
		if !ok {
			continue
		}
		count++
		if e, known := want[key]; !known || e.value(separator(place)) != text {
			return fmt.Errorf("haproxy has another entry for %s in its %s", key, mapName(place))
		}
	}
	if count != len(want) {
		return fmt.Errorf("haproxy has %d entries in its %s instead of %d", count, mapName(place), len(want))
	}
	return nil
}

// compareCertificates checks the listed certificates.
func (m *model) compareCertificates(output string) error {
	want := map[string]string{defaultCertificate: nobody}
	for _, x := range m.certificates {
		want[certificateFile(x.Certificate).String()] = x.nameList()
	}
	for line := range strings.Lines(output) {
		file, names, _ := strings.Cut(strings.TrimSpace(line), " ")
		file, _, _ = strings.Cut(file, ":") // the line number follows
		if file == "#" || file == "" {
			continue
		}
		if expected, ok := want[file]; !ok || expected != names {
			return fmt.Errorf("haproxy shows %s for other names (%s)", file, names)
		}
		delete(want, file)
	}
	for file := range maps.Keys(want) {
		return fmt.Errorf("haproxy does not show %s", file)
	}
	return nil
}

// Columns of "show servers state".
const (
	stateBackend = 1
	stateName    = 3
	stateAddress = 4
	stateAdmin   = 6
	stateWeight  = 7
	statePort    = 18
	stateColumns = 19
)

// maintenanceBit of the administrative state is set by an operator, here or in the file.
const maintenanceBit = 0x01

// compareServers checks the running servers.
func (m *model) compareServers(output string) error {
	want := map[string]*Server{}
	for _, p := range m.backends {
		for i := range p.servers {
			want[serverKey(p.ID, &p.servers[i])] = &p.servers[i]
		}
	}
	for line := range strings.Lines(output) {
		f := strings.Fields(line)
		if len(f) < stateColumns || f[0] == "#" || !strings.HasPrefix(f[stateBackend], backendPrefix) {
			continue
		}
		key := f[stateBackend] + "/" + f[stateName]
		s := want[key]
		if s == nil {
			return fmt.Errorf("haproxy has a server %s that is not stored", key)
		}
		delete(want, key)
		if err := s.is(f); err != nil {
			return fmt.Errorf("server %s of haproxy: %w", key, err)
		}
	}
	for key := range maps.Keys(want) {
		return fmt.Errorf("haproxy has no server %s", key)
	}
	return nil
}
