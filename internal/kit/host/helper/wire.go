// Package helper lets programs that face the network use verbs that need root without being root: they call them over a socket, and
// a small program serves them.
//
// A connection carries one verb after another: its name and arguments, then its results. A verb with a callback sends a frame for
// each invocation first. Closing the connection cancels the verb. The verbs are the methods of host.Machine, found by reflection;
// each needs only a method of Client that calls it.
package helper

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"syscall"

	"github.com/fxamacker/cbor/v2"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/parts"
)

// call is the head of a verb; its arguments follow one by one.
type call struct {
	Verb string `cbor:"1,keyasint"`
}

// frame is the head of a callback or of the results.
type frame struct {
	// Call is set if this invokes the callback, whose arguments follow.
	Call bool `cbor:"1,keyasint,omitempty"`
	// Failure is the verb's error. The results follow even so.
	Failure *failure `cbor:"2,keyasint,omitempty"`
}

// failure is an encoded error: its text, and what callers may look for in it with errors.Is and errors.As.
type failure struct {
	Text string `cbor:"1,keyasint"`
	// Is has the indexes of the known errors that it wraps.
	Is []int `cbor:"2,keyasint,omitempty"`
	// Errno is the system call error that it wraps; 0 for none.
	Errno uint32 `cbor:"3,keyasint,omitempty"`
	// Of has the errors of known types that it wraps, by the index of the type.
	Of map[int]cbor.RawMessage `cbor:"4,keyasint,omitempty"`
}

// known are the errors that callers look for.
var known = []error{
	host.ErrNotInstalled, host.ErrNotRunning, fs.ErrNotExist, fs.ErrPermission, context.Canceled, context.DeadlineExceeded,
	job.ErrUpgradeRuns, job.ErrRestoreRuns, job.ErrRepairRuns, host.ErrFilterMoved, parts.ErrOther,
}

// types are the error types that callers look for.
var types = func() (list []reflect.Type) {
	for _, e := range append([]error{(*host.ExitError)(nil)}, host.Refusals()...) {
		list = append(list, reflect.TypeOf(e))
	}
	return list
}()

func pack(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for i, k := range known {
		if errors.Is(err, k) {
			f.Is = append(f.Is, i)
		}
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.Errno = uint32(errno)
	}
	for i, t := range types {
		found := reflect.New(t)
		if !errors.As(err, found.Interface()) {
			continue
		}
		if content, err := encoding.Marshal(found.Elem().Interface()); err == nil {
			if f.Of == nil {
				f.Of = map[int]cbor.RawMessage{}
			}
			f.Of[i] = content
		}
	}
	return f
}

// remote is an error from the other end. It has the original's text, and wraps what the original wrapped.
type remote struct {
	text   string
	inside []error
}

func (e *remote) Error() string   { return e.text }
func (e *remote) Unwrap() []error { return e.inside }

func (f *failure) unpack() error {
	if f == nil {
		return nil
	}
	e := &remote{text: f.Text}
	for _, i := range f.Is {
		if i >= 0 && i < len(known) {
			e.inside = append(e.inside, known[i])
		}
	}
	if f.Errno != 0 {
		e.inside = append(e.inside, syscall.Errno(f.Errno))
	}
	for i, content := range f.Of {
		if i < 0 || i >= len(types) {
			continue
		}
		found := reflect.New(types[i].Elem())
		if err := decoding.Unmarshal(content, found.Interface()); err == nil {
			e.inside = append(e.inside, found.Interface().(error))
		}
	}
	return e
}

// Times keep their nanoseconds. A nil slice and an empty one are the same, but a pointer to an empty slice is not a nil pointer:
// setting no addresses differs from leaving them unchanged.
var (
	encoding = must(cbor.EncOptions{Time: cbor.TimeRFC3339Nano, NilContainers: cbor.NilContainerAsEmpty}.EncMode())
	decoding = must(cbor.DecOptions{MaxArrayElements: 1 << 22, MaxMapPairs: 1 << 20}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var (
	machineType = reflect.TypeFor[host.Machine]()
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
	fileType    = reflect.TypeFor[*os.File]()
)
