package main

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/helper/guard/fuzz"
	"edge.internal/gateway/test/appliance/attacker/wish"
)

// change submits the mutated files that a file lists, and prints the results.
func change(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var w wish.Wish
	if err := cbor.Unmarshal(content, &w); err != nil {
		return err
	}
	c := changer{random: rand.New(rand.NewPCG(w.Seed, 0)), told: wish.Told{Changed: map[int]string{}, Started: map[host.Unit]int{}, Failed: map[host.Unit]int{}}}
	for range w.Changes {
		c.check(w.Subjects[c.random.IntN(len(w.Subjects))].Mutate(c.random))
	}
	if w.Starts > 0 {
		for _, s := range w.Subjects {
			c.starts(s, w.Starts)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(c.told)
}

type changer struct {
	random *rand.Rand
	told   wish.Told
	next   int // the number of the next subject
}

// begin marks in the trace that an action on a subject begins.
func (c *changer) begin(s fuzz.Subject) {
	_, _ = os.Open(fuzz.Marker + strconv.Itoa(c.next))
	c.told.Changed[c.next] = string(s.Command) + ": " + s.Changed
	c.next++
}

// check runs the checker on the files, and reports whether it accepts them.
func (c *changer) check(s fuzz.Subject) bool {
	c.begin(s)
	_, err := helpers.Run(ctx, s.Command, host.Input{Staged: s.Files, Timeout: time.Minute})
	var exit *host.ExitError
	switch {
	case err == nil:
		c.told.Liked++
	case errors.As(err, &exit):
		c.told.Disliked++
	case strings.Contains(err.Error(), notForTheGateway):
		delete(c.told.Changed, c.next-1)
		c.told.Refused++
	default:
		c.told.Others = append(c.told.Others, c.told.Changed[c.next-1]+": "+err.Error())
	}
	return err == nil
}

// starts has the daemon read its files as they are, twice, so that its end is seen, and then so many changes of them, such as its checker likes,
// if that likes any.
func (c *changer) starts(s fuzz.Subject, changes int) {
	picky := c.check(s)
	for range wish.Unchanged {
		c.start(s)
	}
	for range changes {
		for tries := 0; ; tries++ {
			if tries == wish.Enough {
				c.told.Others = append(c.told.Others, string(s.Command)+" likes no change")
				return
			}
			if changed := s.Mutate(c.random); changed.Admitted() && (!picky || c.check(changed)) {
				c.start(changed)
				break
			}
		}
	}
}

func (c *changer) start(s fuzz.Subject) {
	c.begin(s)
	for _, f := range s.Files {
		if err := helpers.Install(f.Place, f.Content); err != nil {
			c.told.Others = append(c.told.Others, c.told.Changed[c.next-1]+": "+err.Error())
			return
		}
	}
	unit := wish.Daemons[s.Command]
	c.told.Started[unit]++
	err := helpers.Restart(ctx, unit)
	if err == nil && unit == kea.Unit {
		err = answers()
	}
	if err != nil {
		c.told.Failed[unit]++
	}
}

// answers waits until Kea answers. It counts as started before it has read its file, which it may not like.
func answers() (err error) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err = helpers.LeaseServerAsk(ctx, kea.Status, nil); err == nil {
			return nil
		}
	}
	return err
}
