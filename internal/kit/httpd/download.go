package httpd

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
)

// Download registers a route that answers with a file generated while it is sent. fn returns the file's name and the function
// that writes it. An error before the first byte is answered in the envelope; a later one aborts the connection, so that the
// caller does not mistake a part for the whole.
func Download[In any](r *Router, method, path string, p Policy, d Doc, contentType string, fn func(c *Call, in In) (name string, write func(w io.Writer) error, err error)) {
	plan := planFor(reflect.TypeFor[In]())
	route := Route{Doc: d, Method: method, Path: path, Policy: p, In: reflect.TypeFor[In](), MIME: contentType}
	if plan.body != nil {
		route.Body = &SchemaSource{Type: reflect.TypeFor[In]().FieldByIndex(plan.body).Type, Suffix: "Input", New: true}
	}
	r.Add(route, func(c *Call) error {
		var in In
		if err := plan.read(c.Request, reflect.ValueOf(&in).Elem()); err != nil {
			return err
		}
		name, write, err := fn(c, in)
		if err != nil {
			return err
		}
		c.Unhurried()
		w := &download{call: c, contentType: contentType, name: name}
		err = write(w)
		switch {
		case err != nil && w.begun:
			r.Log.Warn("a download broke off", "path", path, "err", err)
			panic(http.ErrAbortHandler)
		case err != nil:
			return err
		}
		w.begin()
		return nil
	})
}

type download struct {
	call              *Call
	contentType, name string
	begun             bool
}

func (d *download) begin() {
	if d.begun {
		return
	}
	d.begun = true
	h := d.call.Header()
	h.Set("Content-Type", d.contentType)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": d.name}))
	d.call.response.WriteHeader(d.call.status)
}

// Write sends everything immediately.
func (d *download) Write(b []byte) (int, error) {
	d.begin()
	n, err := d.call.response.Write(b)
	if err != nil {
		return n, fmt.Errorf("sending %s: %w", d.name, err)
	}
	return n, http.NewResponseController(d.call.response).Flush()
}
