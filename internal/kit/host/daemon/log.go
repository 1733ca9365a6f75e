package daemon

// Log is one log file of a daemon.
type Log string

// LogSpec is where a log is, and how long it may become; 0 if others see to that.
type LogSpec struct {
	Path  string
	Limit int64
}

// Spec returns the log's entry in the closed list.
func (l Log) Spec() (LogSpec, error) { return listed(logs, "log", l) }

// LogSource names a daemon whose log is kept: by systemd's journal, or in a lab by its supervisor.
type LogSource string

// LogSourceSpec is which lines of the journal are those of a source.
type LogSourceSpec struct {
	// Services are the units that it is, by systemd's names.
	Services []string
	// Slice is where the units of a template are.
	Slice string
	// Requests says which lines of the reverse proxy are its own: those about requests, or all others. Nil does not ask.
	Requests *bool
}

// Spec returns the entry in the closed list.
func (s LogSource) Spec() (LogSourceSpec, error) { return listed(sources, "log source", s) }

// Shown is a log as people read it: sources, files, or both.
type Shown struct {
	Name        string // in queries and entries
	Title       string
	Description string
	Sources     []LogSource
	Files       []Log
	// Order is where it stands among the others: the lowest come first.
	Order int
	// Admins marks what viewers do not get: stacks, words of daemons about what they were given, and paths.
	Admins bool
}
