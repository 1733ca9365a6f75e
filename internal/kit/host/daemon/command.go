package daemon

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/parts"
)

// Command is one program that the gateway runs, with its arguments.
type Command string

// CommandSpec is the program, its constant arguments, and how long it may take. An argument {place} stands for the path of the
// staged file of that place, and {place}/.. for its folder.
type CommandSpec struct {
	Argv    []string
	Timeout time.Duration
	Asks    string             // whom on the machine it talks to, if anyone: a running daemon, or the kernel
	Operand func(string) error // what its one operand must be; nil for those that take none
	Rights  Rights             // what it may do
	Reads   []string           // the files and folders that it reads besides, unless it does what the helper may do
	Writes  string             // the one of them that it also writes
	Env     []string           // what it needs in its environment
	// Staged are the places of the files that a checker reads, the one with the directives first.
	Staged []Place
	// Words, where there is one, picks what matters of what it says on its error stream.
	Words func(text string) string
}

// Rights are what a program may do. One that reads a file that the caller has written never has those of the helper: a file that was made
// for it could have it do something.
type Rights int

const (
	// Own rights are those of the process that runs it.
	Own Rights = iota
	// Checking takes none: it is a user who owns nothing, and reads the staged files and what every program reads.
	Checking
	// CheckingAsNobody is Checking as the user nobody, for a program that must be the user that its scripts run as. Its files hold no secrets.
	CheckingAsNobody
	// CheckingApart is Checking in a network of its own, which is empty and which it may change.
	CheckingApart
	// Loading is to be that user, and to change the network of the machine.
	Loading
	// Owning is to be root without a capability, for a program that must own its files: it reads and writes those of its folders alone.
	Owning
)

// CheckUser is that user. Staged files are readable for its group, and for nobody else.
const CheckUser = "gateway-check"

// CheckFolder is where they are staged.
const CheckFolder = "/run/gateway-check"

// Spec returns the command's entry in the closed list.
func (c Command) Spec() (CommandSpec, error) { return listed(commands, "command", c) }

// FileLimit is how long a file may be.
const FileLimit = 64 << 20

// Input is what a command gets besides its fixed arguments.
type Input struct {
	// Staged files are written to a private folder first; the command's arguments refer to them by place.
	Staged []File
	// Args are the operands of commands that take some. The command's entry in the list says how many and of what form.
	Args []string
	// Timeout ends the command; zero means the list's own.
	Timeout time.Duration
}

// File is the content for one place.
type File struct {
	Place   Place
	Content []byte
	// Parts are those of the content, where its renderer says which it has: then a change of some of them is written without the others.
	Parts parts.Text `cbor:"-"`
	// Redact makes of a content of the place, this or an earlier one, what people may see of it; nil shows all.
	Redact func(content []byte) []byte `cbor:"-"`
}

// Digest is the SHA-256 of what a place should hold.
type Digest struct {
	Place Place
	Sum   []byte
}

// Digest returns the digest of a file.
func (f File) Digest() Digest {
	sum := sha256.Sum256(f.Content)
	return Digest{f.Place, sum[:]}
}

// Of reports whether a content has the digest.
func (d Digest) Of(content []byte) bool {
	sum := sha256.Sum256(content)
	return bytes.Equal(sum[:], d.Sum)
}

// Redacted shows nothing.
func Redacted([]byte) []byte { return []byte("<redacted>\n") }

// Output is what a command printed.
type Output struct {
	Stdout   string
	Stderr   string
	ExitCode int
	Duration time.Duration
}

// ExitError is a command that ended with a non-zero status.
type ExitError struct {
	Command Command
	Output  Output
}

// Program is the name of the command's program, for messages.
func (c Command) Program() string {
	spec, ok := commands[c]
	if !ok {
		return string(c)
	}
	return filepath.Base(spec.Argv[0])
}

// timestamp is what daemons put before their messages.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ `)

// Error gives the operator the first lines of what the program said.
func (e *ExitError) Error() string {
	said := e.Output.Stderr
	if spec, err := e.Command.Spec(); err == nil && spec.Words != nil {
		said = spec.Words(said)
	}
	said = FirstLines(said)
	if said == "" {
		said = FirstLines(e.Output.Stdout)
	}
	if said == "" {
		said = fmt.Sprintf("ended with status %d", e.Output.ExitCode)
	}
	return e.Command.Program() + ": " + said
}

// FirstLines keeps of a program's words what fits into a message.
func FirstLines(text string) string {
	const maxLines, maxLength = 5, 500
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(timestamp.ReplaceAllString(line, ""))
		if line != "" {
			lines = append(lines, line)
		}
		if len(lines) == maxLines {
			break
		}
	}
	said := strings.ToValidUTF8(strings.Join(lines, "; "), "?")
	if len(said) > maxLength {
		said = strings.ToValidUTF8(said[:maxLength], "") + "…"
	}
	return said
}
