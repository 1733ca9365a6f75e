package job

import "time"

// View is what the API shows of every job.
type View struct {
	ID      string     `json:"id" doc:"Its id; empty when there was none."`
	Summary string     `json:"summary" doc:"The state in a sentence."`
	Reason  string     `json:"reason" doc:"Why it failed, for administrators; empty on success."`
	BeganAt *time.Time `json:"began_at" doc:"When it was asked for."`
	EndedAt *time.Time `json:"ended_at" doc:"When it ended."`
}

// StepView is what the API shows of every step, besides its name.
type StepView struct {
	State   string     `json:"state" enum:"running,done,failed,interrupted" doc:"Progress."`
	BeganAt time.Time  `json:"began_at" doc:"When it began."`
	EndedAt *time.Time `json:"ended_at" doc:"When it ended."`
	Output  string     `json:"output" doc:"The end of its output, for administrators."`
	Error   string     `json:"error" doc:"Why it failed, for administrators."`
}

// View returns the record as the API shows it. Unless all is set, the output of programs is omitted.
func (r Record) View(summary string, all bool) View {
	v := View{ID: r.ID, Summary: summary, BeganAt: Moment(r.BeganAt), EndedAt: Moment(r.EndedAt)}
	if all {
		v.Reason = r.Reason
	}
	return v
}

// Views returns the steps of a record as the API shows them, each built from its name and what all steps have.
func Views[S any](r Record, all bool, of func(name string, v StepView) S) []S {
	list := make([]S, len(r.Steps))
	for i, s := range r.Steps {
		v := StepView{State: string(s.State), BeganAt: s.BeganAt, EndedAt: Moment(s.EndedAt)}
		if all {
			v.Output, v.Error = s.Output, s.Error
		}
		list[i] = of(s.Name, v)
	}
	return list
}

// Moment returns nil for a zero time.
func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
