package daemon

type Log string

// LogSpec is an entry of the closed list. The gateway trims the file when it exceeds Limit bytes; 0 means that something else
// rotates it.
type LogSpec struct {
	Path  string
	Limit int64
}

func (l Log) Spec() (LogSpec, error) { return listed(logs, "log", l) }

// LogSource names a daemon whose log is kept: by systemd's journal, or in a lab by its supervisor.
type LogSource string

// LogSourceSpec selects the journal lines of a source.
type LogSourceSpec struct {
	Services []string
	// Slice is the slice of the instances of a template unit.
	Slice string
	// Requests splits HAProxy's log: true selects request lines, false all others, nil both.
	Requests *bool
}

func (s LogSource) Spec() (LogSourceSpec, error) { return listed(sources, "log source", s) }

// LogView is a log that the UI offers: sources, files, or both.
type LogView struct {
	Name        string // in the API
	Title       string
	Description string
	Sources     []LogSource
	Files       []Log
	// Order sorts the list in the UI; the lowest comes first.
	Order int
	// Admins hides the log from viewers: it may hold stack traces, paths and data that clients sent.
	Admins bool
}
