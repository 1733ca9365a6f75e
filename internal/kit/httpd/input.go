package httpd

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

// inputPlan says where the fields of an input struct come from.
type inputPlan struct {
	params []param
	body   []int
}

type param struct {
	name  string
	path  bool
	index []int
	typ   reflect.Type
	doc   string
}

func planFor(t reflect.Type) inputPlan {
	var plan inputPlan
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Name == "Body":
			plan.body = f.Index
		case f.Tag.Get("path") != "":
			plan.params = append(plan.params, param{f.Tag.Get("path"), true, f.Index, f.Type, f.Tag.Get("doc")})
		case f.Tag.Get("query") != "":
			plan.params = append(plan.params, param{f.Tag.Get("query"), false, f.Index, valueType(f.Type), f.Tag.Get("doc")})
		default:
			panic(fmt.Sprintf("%s.%s comes from nowhere", t, f.Name))
		}
	}
	return plan
}

// valueType returns the type of a parameter that is present.
func valueType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func (p inputPlan) read(req *http.Request, in reflect.Value) error {
	var complaints check.List
	query := req.URL.Query()
	for _, x := range p.params {
		v := in.FieldByIndex(x.index)
		if x.path {
			if err := setPath(v, req, x.name); err != nil {
				return err
			}
			continue
		}
		if text := query.Get(x.name); text != "" {
			if err := setParam(v, text); err != nil {
				complaints.Add(x.name, "%s", err)
			}
		}
	}
	if p.body != nil {
		body, err := ReadBody(req)
		if err != nil {
			return err
		}
		into := in.FieldByIndex(p.body).Addr()
		if later, ok := into.Interface().(interface{ keep([]byte) }); ok {
			later.keep(body)
			return complaints.Err()
		}
		if into.Elem().Kind() == reflect.Pointer {
			if len(body) == 0 {
				return complaints.Err()
			}
			into.Elem().Set(reflect.New(into.Elem().Type().Elem()))
			into = into.Elem()
		}
		if _, err := wire.Decode(body, into.Interface()); err != nil {
			if err := complaints.Merge(err); err != nil {
				return err
			}
		}
	}
	if v, ok := in.Addr().Interface().(wire.Validator); ok {
		if err := complaints.Merge(v.Validate()); err != nil {
			return err
		}
	}
	return complaints.Err()
}

// Query reads parameters of the URL into a struct, for handlers that work on the call itself.
func Query(req *http.Request, in any) error {
	v := reflect.ValueOf(in).Elem()
	return planFor(v.Type()).read(req, v)
}

// setPath reads a path parameter: an id, or a number or name of something outside the database. A malformed one is not found.
func setPath(v reflect.Value, req *http.Request, name string) error {
	if v.Type() == reflect.TypeFor[uuid.UUID]() {
		id, err := PathID(req, name)
		v.Set(reflect.ValueOf(id))
		return err
	}
	text := req.PathValue(name)
	// Only the canonical form of a number is accepted.
	if err := setParam(v, text); err != nil || fmt.Sprint(v.Interface()) != text {
		return fault.New(fault.NotFound, "This id does not exist.")
	}
	return nil
}

// Onto is a JSON body that changes a stored value: absent fields keep theirs.
type Onto[T any] struct{ body []byte }

func (o *Onto[T]) keep(body []byte) { o.body = body }

func (Onto[T]) source() *SchemaSource {
	return &SchemaSource{Type: reflect.TypeFor[T](), Suffix: "Update"}
}

func (o Onto[T]) Given() bool { return len(o.body) > 0 }

// Decode applies the body to the stored value.
func (o Onto[T]) Decode(stored T) (T, error) {
	_, err := wire.Decode(o.body, &stored)
	return stored, err
}

// checkBody refuses a body with the wrong content type, and a body on a route that takes none, unless it is empty.
func checkBody(route *Route, req *http.Request) error {
	if req.ContentLength == 0 {
		return nil
	}
	if route.Takes != "" {
		if media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || !slices.Contains(strings.Split(route.Takes, ", "), media) {
			return fault.New(fault.UnsupportedMedia, "The Content-Type must be %s.", strings.ReplaceAll(route.Takes, ", ", " or "))
		}
		return nil
	}
	if announced := req.Header.Get("Content-Type"); announced != "" {
		if media, _, err := mime.ParseMediaType(announced); err != nil || media != "application/json" {
			return fault.New(fault.UnsupportedMedia, "The body must be JSON, with the Content-Type application/json.")
		}
	}
	if route.Body != nil {
		return nil
	}
	body, err := ReadBody(req)
	if err != nil {
		return err
	}
	if _, err := wire.Decode(body, new(struct{})); err != nil && len(bytes.TrimSpace(body)) > 0 {
		return fault.New(fault.Invalid, "This route takes no body.")
	}
	return nil
}

// ReadBody reads the whole body, which the router has limited.
func ReadBody(req *http.Request) ([]byte, error) {
	body, err := io.ReadAll(req.Body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, fault.New(fault.TooLarge, "The body must have at most %d bytes.", MaxBody)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The body ended early.")
	}
	return body, nil
}

// setParam parses a query parameter. A pointer distinguishes an absent parameter from a zero value.
func setParam(v reflect.Value, text string) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch v.Interface().(type) {
	case string:
		// Neither the database nor a file name can hold what is refused here.
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
			return errors.New("must be UTF-8 text without NUL characters")
		}
		v.SetString(text)
	case int, int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("must be a whole number")
		}
		v.SetInt(n)
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		v.SetBool(b)
	case time.Time:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return errors.New("must be a time, for example 2026-01-31T12:00:00Z")
		}
		v.Set(reflect.ValueOf(t))
	case uuid.UUID:
		id, err := uuid.Parse(text)
		if err != nil {
			return errors.New("must be an id")
		}
		v.Set(reflect.ValueOf(id))
	default:
		parsed, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
		if !ok {
			panic(fmt.Sprintf("no query parameter can be a %s", v.Type()))
		}
		return parsed.UnmarshalText([]byte(text))
	}
	return nil
}
