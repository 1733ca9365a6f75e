package resource

import (
	"context"
	"slices"
	"strconv"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
)

type Export struct {
	// Kinds are those to write. If empty, all kinds but those that are Apart are written.
	Kinds []string
	// Sealed writes secrets encrypted under this master key. Otherwise they are omitted.
	Sealed bool
	JSON   bool
}

// Export writes the configuration as a document.
func (r *Registry) Export(ctx context.Context, x Export) (doc []byte, err error) {
	var wrong check.List
	for _, name := range x.Kinds {
		wrong.That(r.kinds[name] != nil, "kinds", "There is no kind %q.", name)
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		c, err := r.catalogue(ctx, tx, x.Sealed)
		if err != nil {
			return err
		}
		doc, err = c.write(x, actor.From(ctx).Role == actor.Admin)
		return err
	})
	return doc, err
}

func (c *catalogue) write(x Export, admin bool) ([]byte, error) {
	b := []byte(yamlHead())
	if x.JSON {
		b = []byte(`{"` + formKey + `":` + strconv.Itoa(documentForm))
	}
	for _, s := range c.sections {
		switch {
		case s.AdminOnly && !admin && !slices.Contains(x.Kinds, s.Name):
			continue
		case s.AdminOnly && !admin:
			return nil, errAdmin
		case len(x.Kinds) == 0 && s.Apart, len(x.Kinds) > 0 && !slices.Contains(x.Kinds, s.Name):
			continue
		}
		var err error
		if b, err = c.writeSection(b, s, x.JSON); err != nil {
			return nil, err
		}
	}
	if x.JSON {
		b = append(b, "}\n"...)
	}
	return b, nil
}

func (c *catalogue) writeSection(b []byte, s *section, json bool) ([]byte, error) {
	if json {
		b = append(append(strconv.AppendQuote(append(b, ",\n"...), s.Name), ':'), map[bool]string{true: "", false: "["}[s.single]...)
	} else {
		b = append(append(b, s.Name...), ':')
	}
	begun := false
	for _, e := range s.entries {
		included, err := c.included(s, e)
		if err != nil {
			return nil, err
		}
		if !included {
			continue
		}
		switch {
		case json && !s.single && begun:
			b = append(b, ",\n"...)
		case !json && !begun, json && !s.single:
			b = append(b, '\n')
		}
		begun = true
		b = s.text(b, e.fields, json)
	}
	switch {
	case json && !s.single:
		return append(b, ']'), nil
	case !json && !begun:
		return append(b, " []\n"...), nil
	}
	return b, nil
}
