package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ledger records the steps of a job, each before it begins and after it has ended.
type ledger struct {
	folder Folder
	file   string
	all    any     // the whole record
	record *Record // within all
	log    *slog.Logger
}

// maxSteps limits the record of a job that is interrupted again and again.
const maxSteps = 40

func (l *ledger) interrupted() {
	for i := range l.record.Steps {
		if s := &l.record.Steps[i]; s.State == StepRunning {
			s.State, s.EndedAt = StepInterrupted, now()
		}
	}
}

func (l *ledger) do(ctx context.Context, name string, do func(context.Context) error) error {
	was, steps := l.record.Step, l.record.Steps
	l.record.Step = name
	l.record.Steps = append(slices.Clone(steps[max(0, len(steps)+1-maxSteps):]), Step{Name: name, State: StepRunning, BeganAt: now()})
	if err := l.save(); err != nil {
		l.record.Step, l.record.Steps = was, steps // it did not begin
		return fmt.Errorf("writing down the step %s: %w", name, err)
	}
	l.log.Info("step", "step", name)
	var output tail
	err := do(context.WithValue(ctx, tailKey{}, &output))
	if ctx.Err() != nil {
		return context.Cause(ctx) // the next start finds it interrupted
	}
	s := &l.record.Steps[len(l.record.Steps)-1]
	s.EndedAt, s.Output, s.State = now(), Hide(output.String()), StepDone
	if err != nil {
		s.State, s.Error = StepFailed, Hide(err.Error())
		err = &hidden{text: s.Error, err: err}
	}
	if saved := l.save(); saved != nil {
		return errors.Join(err, fmt.Errorf("writing down the step %s: %w", name, saved))
	}
	return err
}

// hidden is an error whose text contains no passwords.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

// save writes the record. On a full disk it uses the reserved space.
func (l *ledger) save() error {
	err := l.folder.Save(l.file, l.all)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		if err := l.folder.Release(); err != nil {
			return err
		}
		err = l.folder.Save(l.file, l.all)
	}
	return err
}

// sentence capitalizes a text and adds a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

func now() time.Time { return time.Now().UTC() }

// Waiting is how long to wait for a service.
type Waiting struct {
	// Patience is how long it may take until it serves, and Silence until it answers at all; Every is the polling interval.
	Patience, Silence, Every time.Duration
}

// Await waits until something serves. If it does not answer at all, it gets less time: while we wait for it, there is no console.
func (w Waiting) Await(ctx context.Context, what string, ready func(context.Context) error) error {
	began, answered := time.Now(), false
	ctx, cancel := context.WithTimeout(ctx, w.Patience)
	defer cancel()
	every := time.NewTicker(w.Every)
	defer every.Stop()
	var last error
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			if last == nil || err.Error() != last.Error() {
				fmt.Fprintln(Output(ctx), err)
			}
			last = err
		}
		answered = answered || !errors.Is(err, ErrSilent)
		if !answered && time.Since(began) > w.Silence {
			return fmt.Errorf("%s did not start within %g minutes: %w", what, w.Silence.Minutes(), last)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not work within %g minutes: %w", what, w.Patience.Minutes(), last)
		case <-every.C:
		}
	}
}
