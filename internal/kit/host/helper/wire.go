// Package helper puts the verbs of a machine that need root behind a socket: a small program serves them, and the programs that
// face the network call them without being root.
//
// On a connection goes one verb after the other. A verb is its name and its arguments; the answer is its results. A verb with a
// callback answers with a frame for each call before that. Closing the connection gives the verb up. The verbs are those of
// host.Machine, by reflection: there is nothing to write per verb but the line that calls it.
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

// call is the head of one verb; its arguments follow, each by itself.
type call struct {
	Verb string `cbor:"1,keyasint"`
}

// frame is what comes back.
type frame struct {
	// Call says that a callback is called; the arguments follow.
	Call bool `cbor:"1,keyasint,omitempty"`
	// Failure is why the verb failed; results follow all the same.
	Failure *failure `cbor:"2,keyasint,omitempty"`
}

// failure is an error on its way. What the caller may ask it for travels with its text.
type failure struct {
	Text string `cbor:"1,keyasint"`
	// Is are the indexes of the known errors that it is.
	Is []int `cbor:"2,keyasint,omitempty"`
	// Errno is the kernel's number; 0 for none.
	Errno uint32 `cbor:"3,keyasint,omitempty"`
	// Of are the errors of known types that it is, by the index of the type.
	Of map[int]cbor.RawMessage `cbor:"4,keyasint,omitempty"`
}

// known are the errors that callers compare with.
var known = []error{host.ErrNotInstalled, host.ErrNotRunning, fs.ErrNotExist, fs.ErrPermission, context.Canceled, context.DeadlineExceeded, job.ErrUpgradeRuns, job.ErrRestoreRuns, job.ErrRepairRuns, host.ErrFilterMoved, parts.ErrOther}

// types are pointers to the structs that callers ask for.
var types = func() (list []reflect.Type) {
	for _, e := range append([]error{(*host.ExitError)(nil)}, host.Refusals()...) {
		list = append(list, reflect.TypeOf(e))
	}
	return list
}()

// pack makes an error ready to be sent.
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

// remote is an error that was sent: it has the text of the original, and is what that was.
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

// Times keep their nanoseconds. Nothing and an empty list are the same, and a pointer to nothing is not no pointer: a change to no
// addresses is not one that leaves them.
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
