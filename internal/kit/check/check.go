// Package check collects the errors in a value, so that people see all of them at once.
package check

import (
	"errors"
	"fmt"

	"edge.internal/gateway/internal/kit/fault"
)

// List collects errors by JSON field path. The first error about a field is kept.
type List struct {
	fields map[string]string
	// invalid says that there are errors other than duplicates.
	invalid bool
}

// That adds an error about a field unless ok.
func (l *List) That(ok bool, field, format string, args ...any) {
	if !ok {
		l.Add(field, format, args...)
	}
}

// Unique adds an error about a field whose value another row already has, unless ok.
func (l *List) Unique(ok bool, field, format string, args ...any) {
	if !ok {
		l.add(field, format, args...)
	}
}

// Add adds an error about a field.
func (l *List) Add(field, format string, args ...any) {
	l.invalid = true
	l.add(field, format, args...)
}

func (l *List) add(field, format string, args ...any) {
	if l.fields == nil {
		l.fields = map[string]string{}
	}
	if _, there := l.fields[field]; !there {
		l.fields[field] = fmt.Sprintf(format, args...)
	}
}

// Merge adds the field errors in err, and returns any other error.
func (l *List) Merge(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Invalid || len(f.Fields) == 0 {
		return err
	}
	for field, text := range f.Fields {
		l.Add(field, "%s", text)
	}
	return nil
}

// Has reports whether there is an error about the field.
func (l *List) Has(field string) bool { _, there := l.fields[field]; return there }

// Err returns all errors as one, or nil. Duplicates alone are a conflict.
func (l *List) Err() error {
	switch {
	case len(l.fields) == 0:
		return nil
	case !l.invalid:
		return fault.Taken(l.fields)
	}
	return fault.Fields(l.fields)
}
