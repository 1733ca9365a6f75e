package daemon

import "context"

// Verbs are those of a conversation, each with the privilege that it needs.
type Verbs map[string]Privilege

// Privilege says who does a verb.
type Privilege int

// The privileges.
const (
	// Local verbs need no privilege, or one that a group gives. The program that wants them does them itself.
	Local Privilege = iota + 1
	// Served verbs need root. The helper does them, once.
	Served
	// Repeatable verbs are served, and may be done twice: they read, or have the same result however often they are done. They are asked for
	// again if the helper dies in the middle of one.
	Repeatable
	// Probed verbs look at the network. A process that is not root does them.
	Probed
)

// Helper does the verbs that are served.
type Helper interface {
	// Ask asks for a verb, and decodes its results into pointers. For a verb with a callback, called decodes the callback's arguments, one after
	// the other, and calls it.
	Ask(ctx context.Context, verb string, args []any, called func(decode func(any) error) error, results ...any) error
}

// Ask asks for a verb with one result.
func Ask[T any](ctx context.Context, h Helper, verb string, args ...any) (result T, err error) {
	err = h.Ask(ctx, verb, args, nil, &result)
	return result, err
}

// Do asks for a verb without one.
func Do(ctx context.Context, h Helper, verb string, args ...any) error {
	return h.Ask(ctx, verb, args, nil)
}

// Until returns the error of a verb that lasts until its context ends: none if the context has ended.
func Until(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
