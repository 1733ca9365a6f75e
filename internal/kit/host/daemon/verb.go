package daemon

import "context"

// Verbs lists methods of host.Machine with the privilege that each needs.
type Verbs map[string]Privilege

// Privilege decides which process executes a verb.
type Privilege int

const (
	// Local verbs need no privilege, or one that comes with a group. The calling program executes them itself.
	Local Privilege = iota + 1
	// Served verbs need root. The helper executes them, at most once.
	Served
	// Repeatable verbs are served, too, but may run twice: they read, or are idempotent. The client repeats them if the helper
	// dies.
	Repeatable
	// Probed verbs run network diagnostics. A separate process without root executes them.
	Probed
)

// Helper is the client of the helper, as the daemons' folders see it.
type Helper interface {
	// Ask calls a verb and decodes its results into pointers. If the verb has a callback, called must decode its arguments one by
	// one and invoke it; otherwise called is nil.
	Ask(ctx context.Context, verb string, args []any, called func(decode func(any) error) error, results ...any) error
}

func Ask[T any](ctx context.Context, h Helper, verb string, args ...any) (result T, err error) {
	err = h.Ask(ctx, verb, args, nil, &result)
	return result, err
}

func Do(ctx context.Context, h Helper, verb string, args ...any) error {
	return h.Ask(ctx, verb, args, nil)
}

// Until drops the error of a verb that ended because its context did.
func Until(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
