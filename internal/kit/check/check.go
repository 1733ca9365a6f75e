// Package check collects the complaints about a value, so that a person sees all of them at once.
package check

import (
	"errors"
	"fmt"

	"edge.internal/gateway/internal/kit/fault"
)

// List collects complaints by JSON field path. The first complaint about a field stays.
type List struct {
	fields map[string]string
	// invalid says that there is more than duplicates.
	invalid bool
}

// That complains about a field unless the condition holds.
func (l *List) That(ok bool, field, format string, args ...any) {
	if !ok {
		l.Add(field, format, args...)
	}
}

// Unique complains about a field that has what another row has already, unless the condition holds.
func (l *List) Unique(ok bool, field, format string, args ...any) {
	if !ok {
		l.add(field, format, args...)
	}
}

// Add complains about a field.
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

// Merge takes over the complaints of an error and returns what is not a complaint about fields.
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

// Has tells whether there is a complaint about the field.
func (l *List) Has(field string) bool { _, there := l.fields[field]; return there }

// Err is all complaints as one error, or nil. Duplicates alone are a conflict.
func (l *List) Err() error {
	switch {
	case len(l.fields) == 0:
		return nil
	case !l.invalid:
		return fault.Taken(l.fields)
	}
	return fault.Fields(l.fields)
}
