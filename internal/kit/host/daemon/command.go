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

type Command string

// CommandSpec is an entry of the closed list. An argument {place} stands for the path of the staged file of that place, and
// {place}/.. for its folder.
type CommandSpec struct {
	Argv    []string
	Timeout time.Duration
	Asks    string             // the running daemon or the part of the kernel that it queries, if any
	Operand func(string) error // validates its one operand; nil if it takes none
	Rights  Rights             // its privileges
	Reads   []string           // further files and folders that it may read, unless Rights is Own
	Writes  string             // the one of these that it may also write
	Env     []string           // additions to its environment
	// Staged are the places of the files that a checker reads. The one with the directives comes first.
	Staged []Place
	// Words picks what matters from its error stream; nil for everything.
	Words func(text string) string
}

// Rights are the privileges of a command. A program that reads a file written by the helper's caller never runs with Own: a crafted
// file could make it act as root.
type Rights int

const (
	// Own runs with the privileges of the process that starts it.
	Own Rights = iota
	// Checking runs as CheckUser without privileges. It reads the staged files and what any program may read.
	Checking
	// CheckingAsNobody is Checking as the user nobody, for a program that must run as the user of its scripts. Its files must hold
	// no secrets.
	CheckingAsNobody
	// CheckingApart is Checking in an empty network namespace of its own, which it may change.
	CheckingApart
	// Loading runs as CheckUser, with the right to change the machine's network.
	Loading
	// Owning runs as root without capabilities, for a program that must own its files. It can only read and write its own folders.
	Owning
)

// CheckUser owns no files. Only its group can read staged files.
const CheckUser = "gateway-check"

// CheckFolder holds staged files.
const CheckFolder = "/run/gateway-check"

func (c Command) Spec() (CommandSpec, error) { return listed(commands, "command", c) }

// FileLimit is the largest file that the gateway writes, in bytes.
const FileLimit = 64 << 20

type Input struct {
	// Staged files are written to a private folder first; the arguments refer to them by place.
	Staged []File
	// Args are operands. The closed list says how many a command takes, and of what form.
	Args []string
	// Timeout replaces the one of the closed list; zero keeps it.
	Timeout time.Duration
}

type File struct {
	Place Place
	// Content may be nil if there are parts: Text puts them together only for those who need the whole.
	Content []byte
	// Parts is the content divided into parts, if the renderer does so. Changes can then be written part by part.
	Parts parts.Text `cbor:"-"`
	// Redact hides the secrets in this or an earlier content of the place, for previews; nil shows everything.
	Redact func(content []byte) []byte `cbor:"-"`
}

// Digest is the SHA-256 of the content that a place should have.
type Digest struct {
	Place Place
	Sum   []byte
}

// Text returns the whole content.
func (f File) Text() []byte {
	if f.Content == nil && f.Parts != nil {
		return f.Parts.Bytes()
	}
	return f.Content
}

// Whole returns the file with its whole content, as the machine needs it.
func (f File) Whole() File {
	f.Content = f.Text()
	return f
}

// Same reports whether two files of a place have the same content.
func (f File) Same(o File) bool {
	if f.Parts != nil && o.Parts != nil {
		return f.Parts.Same(o.Parts)
	}
	return bytes.Equal(f.Text(), o.Text())
}

func (f File) Digest() Digest {
	sum := sha256.Sum256(f.Text())
	return Digest{f.Place, sum[:]}
}

func (d Digest) Of(content []byte) bool {
	sum := sha256.Sum256(content)
	return bytes.Equal(sum[:], d.Sum)
}

// Redacted is a Redact function that hides everything.
func Redacted([]byte) []byte { return []byte("<redacted>\n") }

type Output struct {
	Stdout   string
	Stderr   string
	ExitCode int
	Duration time.Duration
}

// ExitError means that a command ended with a non-zero status.
type ExitError struct {
	Command Command
	Output  Output
}

func (c Command) Program() string {
	spec, ok := commands[c]
	if !ok {
		return string(c)
	}
	return filepath.Base(spec.Argv[0])
}

// timestamp is removed from messages, which daemons start with it.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ `)

// Error returns the first lines of the program's error stream, or else of its output.
func (e *ExitError) Error() string {
	text := e.Output.Stderr
	if spec, err := e.Command.Spec(); err == nil && spec.Words != nil {
		text = spec.Words(text)
	}
	text = FirstLines(text)
	if text == "" {
		text = FirstLines(e.Output.Stdout)
	}
	if text == "" {
		text = fmt.Sprintf("ended with status %d", e.Output.ExitCode)
	}
	return e.Command.Program() + ": " + text
}

// FirstLines shortens a program's output for a message.
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
	text = strings.ToValidUTF8(strings.Join(lines, "; "), "?")
	if len(text) > maxLength {
		text = strings.ToValidUTF8(text[:maxLength], "") + "…"
	}
	return text
}
