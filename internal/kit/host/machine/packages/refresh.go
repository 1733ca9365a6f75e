package packages

import (
	"context"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/job"
)

// refreshWithin bounds a refresh of apt's lists.
const refreshWithin = 5 * time.Minute

// Refresh is one refresh of apt's lists.
type Refresh struct {
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Error   string    `json:"error"`
}

// RunRefresh has apt fetch its lists, and keeps how it went. That a mirror is away is no error: it is said where the lists are shown, and
// the machine is no worse for it. It is for root.
func RunRefresh(ctx context.Context, f job.Folder) (Refresh, error) {
	r := Refresh{BeganAt: time.Now().UTC()}
	if err := f.Save(host.ListsFile, r); err != nil {
		return r, err
	}
	out, err := command.Exec(ctx, []string{"/usr/bin/apt-get", "update", "--quiet", "--error-on=any"}, refreshWithin)
	if err == nil && out.ExitCode != 0 {
		err = fmt.Errorf("apt-get update: %s", host.FirstLines(job.Hide(out.Stderr)))
	}
	r.EndedAt = time.Now().UTC()
	if err != nil {
		r.Error = err.Error()
	}
	return r, f.Save(host.ListsFile, r)
}
