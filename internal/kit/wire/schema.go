package wire

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// NewRegistry returns a registry of schemas whose names include the package, because several rooms have a Settings.
func NewRegistry() huma.Registry {
	huma.DefaultArrayNullable = false
	return huma.NewMapRegistry("#/components/schemas/", schemaName)
}

// NewDefinitions returns a registry of schemas for a JSON Schema document.
func NewDefinitions() huma.Registry {
	huma.DefaultArrayNullable = false
	return huma.NewMapRegistry("#/$defs/", schemaName)
}

var notWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Name() == "" {
		return notWord.ReplaceAllString(hint, "")
	}
	pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if pkg == "" || strings.EqualFold(pkg, name) {
		return name
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + name
}

// Output returns the schema of a value in an answer.
func Output(r huma.Registry, t reflect.Type) *huma.Schema {
	// A type without a name cannot be referenced.
	s := r.Schema(t, t.Kind() != reflect.Struct || t.Name() != "", "")
	if full := deref(r, s); t.Kind() == reflect.Struct && full.Properties != nil {
		for _, f := range Fields(t) {
			if f.Secret {
				delete(full.Properties, f.Name)
				full.Required = slices.DeleteFunc(full.Required, func(name string) bool { return name == f.Name })
			}
		}
	}
	return s
}

// Input returns the schema of a value in a request: the fields that may be sent, and those that a new value must have. With only,
// it is limited to those fields. defaults are the values of omitted fields.
func Input(r huma.Registry, t reflect.Type, suffix string, isNew bool, only []string, defaults map[string]any) *huma.Schema {
	name := schemaName(t, "") + suffix
	ref := &huma.Schema{Ref: "#/components/schemas/" + name}
	if r.Map()[name] != nil {
		return ref
	}
	full := *huma.SchemaFromType(r, t)
	full.Properties = map[string]*huma.Schema{}
	full.Required = nil
	all := huma.SchemaFromType(r, t).Properties
	for _, f := range Fields(t) {
		if f.ReadOnly || only != nil && !slices.Contains(only, f.Name) {
			continue
		}
		property := all[f.Name]
		if f.Secret {
			property = &huma.Schema{Type: huma.TypeString, WriteOnly: true, Description: property.Description}
		}
		full.Properties[f.Name] = property
		if isNew && (f.Required || f.Given) {
			full.Required = append(full.Required, f.Name)
		} else if !f.Secret {
			property.Default = defaults[f.Name]
		}
	}
	slices.Sort(full.Required)
	// What a GET returned may be sent back, so read-only fields are tolerated.
	full.AdditionalProperties = nil
	r.Map()[name] = &full
	return ref
}

func deref(r huma.Registry, s *huma.Schema) *huma.Schema {
	if s.Ref != "" {
		return r.SchemaFromRef(s.Ref)
	}
	return s
}
