package resource

import (
	"context"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/wire"
)

func (r *Registry) DocumentSchema(ctx context.Context) (schema []byte, err error) {
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		c, err := r.catalogue(ctx, tx, false)
		if err != nil {
			return err
		}
		schema, err = wire.Encode(c.schema())
		return err
	})
	return schema, err
}

func (c *catalogue) schema() map[string]any {
	types := wire.NewDefinitions()
	properties := map[string]any{formKey: map[string]any{"const": documentForm, "description": "Version of the form."}}
	for _, s := range c.sections {
		row := map[string]any{"type": "object", "additionalProperties": false, "title": s.Title}
		fields := map[string]any{}
		all := huma.SchemaFromType(types, s.typ).Properties
		for _, f := range s.fields {
			fields[f.Name] = c.property(f, all[f.Name])
		}
		row["properties"] = fields
		if required := s.required(); len(required) > 0 {
			row["required"] = required
		}
		if s.single {
			properties[s.Name] = row
		} else {
			properties[s.Name] = map[string]any{"type": "array", "items": row}
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Gateway configuration", "type": "object", "required": []string{formKey},
		"additionalProperties": false, "properties": properties, "$defs": types.Map(),
	}
}

// required lists the fields that identify a row.
func (s *section) required() []string {
	if s.single {
		return nil
	}
	if s.extends != "" {
		return []string{s.fields[0].Name}
	}
	var list []string
	for _, f := range s.fields {
		for _, name := range s.Natural {
			if f.Name == name && f.Required {
				list = append(list, name)
			}
		}
		if len(s.Natural) == 0 && f.Name == "name" && f.Required {
			list = append(list, f.Name)
		}
	}
	return list
}

func (c *catalogue) property(f documentField, plain *huma.Schema) any {
	title := ""
	if to := c.byTable[f.table]; to != nil {
		title = "Name of the " + to.Title + "."
	}
	switch {
	case f.own:
		return map[string]any{"type": "string", "description": title}
	case f.table != "" && f.Type == reflect.TypeFor[[]uuid.UUID]():
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": plain.Description + " " + title}
	case f.table != "" && f.Type == reflect.TypeFor[*uuid.UUID]():
		return map[string]any{"type": []string{"string", "null"}, "description": plain.Description + " " + title}
	case f.table != "":
		return map[string]any{"type": "string", "description": plain.Description + " " + title}
	case f.Secret:
		return map[string]any{"type": "string", "description": plain.Description + " The secret itself, or what an export has for it."}
	case f.Type.Kind() == reflect.Pointer && plain.Ref != "":
		return map[string]any{"anyOf": []any{plain, map[string]any{"type": "null"}}}
	case f.Type.Kind() == reflect.Pointer && plain.Enum != nil:
		nullable := *plain
		nullable.Enum = append(slices.Clone(plain.Enum), nil)
		return &nullable
	}
	return plain
}
