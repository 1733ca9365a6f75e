package job

import (
	"context"
	"fmt"
	"slices"

	"edge.internal/gateway/internal/kit/host"
)

// Course is the way of a job that is taken back if it fails once it has begun to change something.
type Course struct {
	*Ledger
	Name   string  // of the job, for people
	Reason *string // in the record: why it is taken back
	// Changing are the steps that change something, and Returning those that take it back.
	Changing, Returning []string
	Forward, Back       func(context.Context) error
	// Refused is called when it failed before it changed anything; it may be nil.
	Refused func(context.Context)
	// End writes down how the job ended.
	End func(state host.JobState, reason string) error
}

// Advance does what is left of the job. An error says that it could not be brought to an end now.
func (c *Course) Advance(ctx context.Context) error {
	if !c.at(c.Returning) {
		err := c.Forward(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return c.End(host.JobDone, "")
		case !c.at(c.Changing):
			if c.Refused != nil {
				c.Refused(ctx)
			}
			return c.End(host.JobRefused, err.Error())
		}
		*c.Reason = err.Error()
		c.Log.Error("the "+c.Name+" is taken back", "err", err)
	}
	// What was set aside is for this.
	if err := c.Folder.Release(); err != nil {
		c.Log.Warn("giving back the space that was set aside", "err", err)
	}
	if err := c.Back(ctx); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return c.End(host.JobStuck, fmt.Sprintf("%s Rolling back the %s failed as well: %s", Sentence(*c.Reason), c.Name, err))
	}
	return c.End(host.JobTakenBack, *c.Reason)
}

// at tells whether the last step that was begun is one of some.
func (c *Course) at(steps []string) bool { return slices.Contains(steps, *c.Step) }
