package packages

import (
	"context"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/job"
)

const refreshWithin = 5 * time.Minute

// Refresh is the result of a refresh of apt's lists, which host.ListsFile stores.
type Refresh struct {
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Error   string    `json:"error"`
}

// RunRefresh refreshes apt's lists and stores the result, including an error of apt: an unreachable mirror leaves the machine no
// worse off. It must run as root.
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
