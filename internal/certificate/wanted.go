package certificate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
)

// changesAtOnce is how many rows are created or deleted in one transaction.
const changesAtOnce = 200

// Wanted is a certificate that a domain or the gateway needs.
type Wanted struct {
	// DomainID is the domain that needs it; uuid.Nil is the gateway itself.
	DomainID uuid.UUID
	Names    []string
}

// follow creates, changes and deletes the automatic certificates, so that everything wanted and not covered by other certificates has
// one. It reports whether there was something to do.
func (r *Room) follow(ctx context.Context, rows []Certificate) (bool, error) {
	wanted, err := r.deps.Wanted(ctx, r.DB)
	if err != nil {
		return false, err
	}
	ops, err := r.plan(ctx, rows, wanted)
	if err != nil {
		return false, err
	}
	var failures []error
	for part := range slices.Chunk(ops, changesAtOnce) {
		failures = append(failures, r.change(ctx, part))
	}
	return len(ops) > 0, errors.Join(failures...)
}

// change runs the operations together, and one by one if that fails, so that one failing operation does not stop the rest.
func (r *Room) change(ctx context.Context, ops []resource.Operation) error {
	_, _, err := r.Resources.Commit(ctx, resource.Set{Operations: ops, Reason: "what the domains need has changed"})
	if err == nil || db.Away(err) || len(ops) == 1 {
		return err
	}
	var failures []error
	for i := range ops {
		failures = append(failures, r.change(ctx, ops[i:i+1]))
	}
	return errors.Join(failures...)
}

func (r *Room) plan(ctx context.Context, rows []Certificate, wanted []Wanted) (ops []resource.Operation, err error) {
	now := r.Clock.Now()
	others := map[string]bool{} // names that need no certificate
	ours := map[uuid.UUID][]*Certificate{}
	for i := range rows {
		row := &rows[i]
		switch {
		case row.Automatic:
			ours[domainOf(row)] = append(ours[domainOf(row)], row)
		case row.trusted() && now.Before(*row.ExpiresAt):
			for _, n := range row.Names {
				others[n.String()] = true
			}
		}
	}
	kept, enabled := map[uuid.UUID]bool{}, r.deps.ACME().Enabled
	for _, w := range wanted {
		if len(w.Names) == 0 || !slices.ContainsFunc(w.Names, func(n string) bool { return !coveredBy(others, n) }) {
			continue
		}
		row := match(ours[w.DomainID], w)
		var op *resource.Operation
		switch {
		case row != nil:
			kept[row.ID] = true
			if !slices.Equal(texts(row.Names), w.Names) {
				op, err = operation("update", &row.ID, w, row.Challenge)
			}
		case enabled:
			op, err = operation("create", nil, w, challengeHTTP)
		}
		if err != nil {
			return nil, err
		}
		if op != nil {
			ops = append(ops, *op)
		}
	}
	for i := range rows {
		if row := &rows[i]; row.Automatic && !kept[row.ID] {
			users, err := r.deps.Users(ctx, r.DB, row.ID)
			if err != nil {
				return nil, err
			}
			if len(users) == 0 {
				ops = append(ops, resource.Operation{Kind: r.certificates.Name, Verb: "delete", ID: &row.ID})
			}
		}
	}
	return ops, nil
}

func domainOf(row *Certificate) uuid.UUID {
	if row.DomainID == nil {
		return uuid.Nil
	}
	return *row.DomainID
}

// match returns the row of a domain. The gateway's own row is found by its names, because a row may have lost its domain.
func match(rows []*Certificate, w Wanted) *Certificate {
	for _, row := range rows {
		if w.DomainID != uuid.Nil || slices.Equal(texts(row.Names), w.Names) {
			return row
		}
	}
	return nil
}

// coveredBy reports whether names has a name, or a wildcard that matches it.
func coveredBy(names map[string]bool, name string) bool {
	_, parent, _ := strings.Cut(name, ".")
	return names[name] || names["*."+parent]
}

func operation(verb string, id *uuid.UUID, w Wanted, challenge string) (*resource.Operation, error) {
	if slices.ContainsFunc(w.Names, func(n string) bool { return strings.HasPrefix(n, "*.") }) {
		challenge = challengeDNS
	}
	fields := map[string]any{"names": w.Names, "challenge": challenge}
	if w.DomainID != uuid.Nil {
		fields["domain_id"] = w.DomainID
	}
	body, err := json.Marshal(fields)
	return &resource.Operation{Kind: "certificate.certificate", Verb: verb, ID: id, Body: body}, err
}
