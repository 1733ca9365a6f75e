package dns

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
)

const unit = unbound.Unit

func ask(words ...string) unbound.Question { return words }

// run sends runtime commands to unbound.
func (r *Room) run(ctx context.Context, commands []unbound.Question) error {
	for _, c := range commands {
		answers, err := r.Host.ResolverAsk(ctx, c)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(answers[0], "ok") {
			return fmt.Errorf("unbound does not %s: %s", c[0], answers[0])
		}
	}
	return nil
}

// check asks unbound whether it accepts the staged drop-in; the main file only includes it. unbound does not check the ports of forwards,
// but the types do.
func (r *Room) check(ctx context.Context, files []host.File) error {
	_, err := r.Host.Run(ctx, unbound.Check, host.Input{Staged: files})
	return err
}

// fixed lists the attributes that unbound only accepts at its start.
var fixed = []string{"interface", "interface-automatic", "ip-freebind", "num-threads", "so-reuseport"}

// reload makes unbound read its files, and keeps its cache unless it must be restarted.
func (r *Room) reload(ctx context.Context, c *Config, files []host.File) error {
	r.reloads.Add(1)
	for _, attribute := range fixed {
		answers, err := r.Host.ResolverAsk(ctx, ask("get_option", attribute))
		if err != nil && !errors.Is(err, host.ErrNotRunning) {
			return err
		}
		if err != nil || !slices.Equal(strings.Fields(answers[0]), written(files, attribute)) {
			return r.Host.Restart(ctx, unit)
		}
	}
	if err := r.run(ctx, []unbound.Question{ask("reload_keep_cache")}); err != nil {
		return err
	}
	return r.forgetLinks(ctx, c)
}

// written returns the values of an attribute in the drop-in, or unbound's defaults.
func written(files []host.File, attribute string) (list []string) {
	for _, f := range files {
		if f.Place != unbound.DropIn {
			continue
		}
		for line := range strings.Lines(string(f.Content)) {
			if word, ok := strings.CutPrefix(line, "  "+attribute+": "); ok {
				list = append(list, unquoted(strings.TrimSpace(word)))
			}
		}
	}
	if len(list) == 0 && attribute != "interface" {
		return []string{"no"}
	}
	return list
}

// unquoted removes the quotes around a value, if any.
func unquoted(word string) string {
	if len(word) > 1 && (word[0] == '"' || word[0] == '\'') {
		return word[1 : len(word)-1]
	}
	return word
}

// forgetLinks empties the cache of names for which unbound will ask itself from now on: an alias must not be followed to what other
// servers have answered.
func (r *Room) forgetLinks(ctx context.Context, c *Config) error {
	m, err := c.model()
	if err != nil {
		return err
	}
	var commands []unbound.Question
	for _, name := range m.links {
		// Flushing all types of a name does not include these.
		commands = append(commands, ask("flush", name.String()), ask("flush_type", name.String(), "TXT"), ask("flush_type", name.String(), "CAA"))
	}
	return r.run(ctx, commands)
}

// verify checks that unbound runs with the configuration: what only a file can configure by its mark, and all names and records by
// asking.
func (r *Room) verify(ctx context.Context, c *Config, files []host.File) error {
	m, err := c.model()
	if err != nil {
		return err
	}
	answers, err := r.Host.ResolverAsk(ctx, ask("list_local_zones"), ask("list_local_data"))
	if err != nil {
		return fmt.Errorf("unbound does not answer: %w", err)
	}
	if err := m.compareZones(answers[0]); err != nil {
		return err
	}
	mark := written(files, "local-data")
	return m.compareRecords(answers[1], mark[len(mark)-1])
}

// compareZones checks how names are answered. Built-in zones have no records of interest.
func (m *model) compareZones(output string) error {
	seen := 0
	for line := range strings.Lines(output) {
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		n := m.names[name]
		switch {
		case n != nil && kind == n.kind():
			seen++
		case n != nil:
			return fmt.Errorf("unbound answers %s as %s instead of %s", name, kind, n.kind())
		case kind != "static" && name != "localhost." && name != "":
			return fmt.Errorf("unbound has a name %s that is not stored", name)
		}
	}
	if seen != len(m.names) {
		return fmt.Errorf("unbound has %d names instead of %d", seen, len(m.names))
	}
	return nil
}

// kind returns the type of the name's local zone.
func (n *local) kind() string {
	if n.redirect {
		return "redirect"
	}
	return "transparent"
}

// compareRecords checks the running records.
func (m *model) compareRecords(output, mark string) error {
	want := map[string]bool{mark: true}
	var long []string // those that are not listed whole
	for _, n := range m.names {
		for _, r := range n.records {
			if text := r.String(); len(text) < listedLimit/shrink {
				want[text] = true
			} else {
				long = append(long, text)
			}
		}
	}
	for line, whole := range lines(output) {
		text := listed(line)
		if want[text] {
			delete(want, text)
			continue
		}
		i := slices.IndexFunc(long, func(x string) bool { return x == text || !whole && strings.HasPrefix(x, text) })
		switch name, _, _ := strings.Cut(text, " "); {
		case i >= 0:
			long = slices.Delete(long, i, i+1)
		case name == markName.String():
			return errors.New("unbound runs with another configuration")
		case m.holds(name):
			return fmt.Errorf("unbound has a record that is not stored: %.200s", text)
		}
	}
	for text := range want {
		return fmt.Errorf("unbound does not have the record %.200s", text)
	}
	if len(long) > 0 {
		return fmt.Errorf("unbound does not have the record %.200s", long[0])
	}
	return nil
}

const (
	// listedLimit is how many characters of a record unbound lists.
	listedLimit = 1023
	// shrink is how much longer a record may be in unbound's list than here, because of different escapes for quotes.
	shrink = 4
)

// lines yields the records in unbound's list, and whether each is complete. A truncated one also has no end of line.
func lines(output string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for output != "" {
			line, whole := output[:min(len(output), listedLimit)], len(output) < listedLimit
			if end := strings.IndexByte(line, '\n'); end >= 0 {
				line, whole = line[:end], true
			}
			output = strings.TrimPrefix(output[len(line):], "\n")
			if i := strings.LastIndexByte(line, '\\'); !whole && i >= len(line)-4 {
				line = strings.TrimRight(line[:i], `\`) // a truncated escape
			}
			if line != "" && !yield(line, whole) {
				return
			}
		}
	}
}

// holds reports whether a name is local or below a local one.
func (m *model) holds(name string) bool {
	for name != "" {
		if m.names[name] != nil {
			return true
		}
		_, name, _ = strings.Cut(name, ".")
	}
	return false
}
