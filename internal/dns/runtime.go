package dns

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
)

// From this many commands, or rows to derive them from, a reload is faster.
const (
	manyCommands = 1000
	manyRows     = 100
)

// can reports whether unbound can switch between the configurations at runtime.
func (r *Room) can(was, now *Config) bool {
	_, ok := difference(was, now)
	return ok
}

// change switches unbound from one configuration to another at runtime.
func (r *Room) change(ctx context.Context, was, now *Config) error {
	commands, ok := difference(was, now)
	if !ok {
		return errors.New("unbound has to read its files for this")
	}
	return r.run(ctx, commands)
}

// difference returns the commands between two configurations, if possible.
func difference(was, now *Config) ([]unbound.Question, bool) {
	a, err1 := was.model()
	b, err2 := now.model()
	if err1 != nil || err2 != nil || !slices.Equal(renderDropIn(was, a).Digest(), renderDropIn(now, b).Digest()) {
		return nil, false
	}
	var commands []unbound.Question
	for _, name := range slices.Sorted(maps.Keys(a.names)) {
		if b.names[name] == nil {
			commands = append(commands, nameCommands(a.names[name], nil)...)
		}
	}
	for _, n := range b.sorted() {
		if !n.redirect {
			commands = append(commands, nameCommands(a.names[n.name.String()], n)...)
		}
	}
	return commands, fit(commands)
}

func fit(commands []unbound.Question) bool {
	long := func(q unbound.Question) bool {
		length := 0
		for _, word := range q {
			length += len(word) + 1
		}
		return length > unbound.QuestionLimit
	}
	return len(commands) < manyCommands && !slices.ContainsFunc(commands, long)
}

// nameCommands returns the commands between two states of a name; nil is a name that is not answered here. unbound can only remove all
// records of a name at once. A client that asks before they are back gets no answer, and retries, instead of learning that there are
// none.
func nameCommands(was, now *local) (commands []unbound.Question) {
	if now == nil {
		return []unbound.Question{ask("local_zone_remove", was.name.String())}
	}
	name, add := now.name.String(), now.records
	less := false
	switch {
	case was == nil:
		commands = append(commands, ask("local_zone", name, "transparent"))
	case slices.ContainsFunc(was.records, func(r conf.Arg) bool { return !slices.Contains(now.records, r) }):
		less = true
		commands = append(commands, ask("local_zone", name, "deny"), ask("local_data_remove", name))
	default:
		add = slices.DeleteFunc(slices.Clone(now.records), func(r conf.Arg) bool { return slices.Contains(was.records, r) })
	}
	for _, r := range add {
		commands = append(commands, ask("local_data", r.String()))
	}
	if less {
		commands = append(commands, ask("local_zone", name, "transparent"))
	}
	return commands
}

// plan returns the step for a change of records, from these and the others of their names.
func (r *Room) plan(ctx context.Context, tx *db.Tx, rows []apply.Row) (apply.Step, error) {
	if len(rows) > manyRows {
		return nil, nil
	}
	changed := changes{room: r, zones: map[uuid.UUID]*Zone{}, names: map[Name]*[2][]*Record{}}
	for _, row := range rows {
		if row.Kind != r.records.Name {
			return nil, nil
		}
		was, _ := row.Was.(*Record)
		now, _ := row.Now.(*Record)
		for i, rec := range []*Record{was, now} {
			if ok, err := changed.add(ctx, tx, i, rec); err != nil || !ok {
				return nil, err
			}
		}
	}
	var commands []unbound.Question
	for name, sides := range changed.names {
		more, ok, err := r.planName(ctx, tx, name, sides[0], sides[1])
		if err != nil || !ok {
			return nil, err
		}
		commands = append(commands, more...)
	}
	if !fit(commands) {
		return nil, nil
	}
	return func(ctx context.Context) error { return r.run(ctx, commands) }, nil
}

// changes holds records before and after a change, by name.
type changes struct {
	room  *Room
	zones map[uuid.UUID]*Zone
	names map[Name]*[2][]*Record
}

// add adds a record. It returns false for one that needs more than a command: an alias or a wildcard.
func (c *changes) add(ctx context.Context, tx *db.Tx, side int, rec *Record) (ok bool, err error) {
	if rec == nil {
		return true, nil
	}
	zone := c.zones[rec.ZoneID]
	if zone == nil {
		if zone, err = c.room.zones.Get(ctx, tx, rec.ZoneID); err != nil {
			return false, err
		}
		c.zones[rec.ZoneID] = zone
	}
	if !zone.Active {
		return true, nil
	}
	o, err := zone.Name.owner(rec.Name)
	if err != nil || o.wildcard || rec.Type == alias {
		return false, err
	}
	if c.names[o.name] == nil {
		c.names[o.name] = &[2][]*Record{}
	}
	c.names[o.name][side] = append(c.names[o.name][side], rec)
	return true, nil
}

// planName returns the commands for one name with some changed records.
func (r *Room) planName(ctx context.Context, tx *db.Tx, name Name, were, are []*Record) ([]unbound.Question, bool, error) {
	after, linked, err := r.activeAt(ctx, tx, name)
	if err != nil {
		return nil, false, err
	}
	before := slices.DeleteFunc(slices.Clone(after), func(x Record) bool {
		return slices.ContainsFunc(are, func(y *Record) bool { return x.ID == y.ID })
	})
	for _, rec := range were {
		before = append(before, *rec)
	}
	if linked && (len(before) == 0) != (len(after) == 0) {
		return nil, false, nil // aliases that point to it now lead elsewhere
	}
	was, err := localOf(name, before)
	if err != nil {
		return nil, false, err
	}
	now, err := localOf(name, after)
	if err != nil || was == nil && now == nil {
		return nil, err == nil, err
	}
	if now == nil {
		var zone bool // which exists without records, too
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM dns_zones WHERE name = $1 AND active)`, strings.TrimSuffix(name.String(), ".")).Scan(&zone); err != nil {
			return nil, false, err
		}
		if zone {
			return []unbound.Question{ask("local_data_remove", name.String())}, true, nil
		}
	}
	return nameCommands(was, now), true, nil
}

// activeAt returns the active records of a name, and whether an alias points to it.
func (r *Room) activeAt(ctx context.Context, tx *db.Tx, name Name) (records []Record, linked bool, err error) {
	zones, names := owner{name: name}.stored()
	records, err = r.records.Where(ctx, tx, `id IN (
		SELECT r.id FROM unnest($1::text[], $2::text[]) s(zone, name) JOIN dns_zones z ON z.name = s.zone AND z.active JOIN dns_records r ON r.zone_id = z.id AND r.name = s.name
		UNION ALL SELECT r.id FROM dns_records r JOIN dns_zones z ON z.id = r.zone_id AND z.active WHERE r.name = $3 AND r.name LIKE '%.'
		UNION ALL SELECT id FROM dns_records WHERE type = 'CNAME' AND value = $3)`, zones, names, name.String())
	points := func(x Record) bool { return x.Type == alias && x.Value == name.String() }
	linked = slices.ContainsFunc(records, points)
	return slices.DeleteFunc(records, points), linked, err
}

// localOf returns a name with its records; nil if it has none.
func localOf(name Name, records []Record) (*local, error) {
	if len(records) == 0 {
		return nil, nil
	}
	n := &local{name: name}
	for i := range records {
		if err := n.add(owner{name: name}, &records[i]); err != nil {
			return nil, err
		}
	}
	n.sort()
	return n, nil
}
