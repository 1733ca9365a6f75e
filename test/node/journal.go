package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/units"
)

// JournalAgent is the first argument that makes a program with SearchesJournal search the journal at its start.
const JournalAgent = "journal-agent"

// Found is what a search of a node's journal found.
type Found struct {
	Entries []host.JournalEntry
	Place   host.JournalPlace
	Took    time.Duration
	// Peak is the most memory that the program had, in bytes.
	Peak int64
	// Failure is how it failed.
	Failure string
}

// SearchesJournal executes, in a copy of the running program inside a node, the search of SearchJournal, and does not return. Elsewhere it
// does nothing.
func SearchesJournal() {
	if len(os.Args) != 4 || os.Args[1] != JournalAgent {
		return
	}
	var q host.JournalQuery
	if err := json.Unmarshal([]byte(os.Args[3]), &q); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The time limit of searches that do not end.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var f Found
	took := time.Now()
	var err error
	switch os.Args[2] {
	case "say":
		// It runs until the journal has the entry: of a process that has ended, the journal knows less.
		err = errors.Join(journal.Send(strings.Repeat("\x00big", q.Limit/4), journal.PriErr, nil), exec.CommandContext(ctx, "journalctl", "--sync").Run())
	case "chat":
		err = chat(q.Limit)
	case "search":
		err = units.Systemd{}.SearchJournal(ctx, q, func(batch []host.JournalEntry, at host.JournalPlace) {
			f.Entries, f.Place = append(f.Entries, batch...), at
		})
	case "follow":
		err = units.Systemd{}.FollowJournal(ctx, q, func(batch []host.JournalEntry) {
			f.Entries = append(f.Entries, batch...)
			fmt.Fprintf(os.Stderr, "%d\n", len(f.Entries))
			if len(f.Entries) >= q.Limit {
				cancel()
			}
		})
	}
	f.Took = time.Since(took)
	if err != nil {
		f.Failure = err.Error()
	}
	if os.Args[2] == "chat" || os.Args[2] == "say" {
		os.Exit(map[bool]int{true: 0, false: 1}[err == nil])
	}
	status, _ := os.ReadFile("/proc/self/status")
	if _, after, ok := strings.Cut(string(status), "VmHWM:"); ok {
		_, _ = fmt.Sscanf(after, "%d", &f.Peak)
		f.Peak <<= 10
	}
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// chat writes this many lines, one in a hundred of which is an error, and runs until the journal has them.
func chat(lines int) error {
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for i := range lines {
		if i%100 == 0 {
			fmt.Fprintf(out, "[1700000000] unbound[1:0] error: upstream %d.example.net did not answer within its time\n", i)
		} else {
			fmt.Fprintf(out, "[1700000000] unbound[1:0] info: resolving host-%d.example.net. A IN for 192.0.2.%d, from the cache or from elsewhere\n", i, i%250)
		}
	}
	return errors.Join(out.Flush(), exec.Command("journalctl", "--sync").Run())
}

// Chat is the command of a unit that prints this many lines. It requires the agent.
func Chat(lines int) string {
	return fmt.Sprintf("%s %s chat '{\"Limit\": %d}'", agentPath, JournalAgent, lines)
}

const agentPath = "/root/journal-agent"

// SpeakAtOnce is the command of a unit that writes this many bytes of invalid UTF-8 at once. It requires the agent.
func SpeakAtOnce(size int) string {
	return fmt.Sprintf("%s %s say '{\"Limit\": %d}'", agentPath, JournalAgent, size)
}

// BringAgent copies the running program into the node, unless it exists there.
func (n *Node) BringAgent(ctx context.Context) error {
	if _, err := n.Run(ctx, "test", "-x", agentPath); err == nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := n.Copy(self, agentPath); err != nil {
		return err
	}
	_, err = n.Run(ctx, "chmod", "0755", agentPath)
	return err
}

// SearchJournal searches the node's journal with a copy of the running program, which must call SearchesJournal at its start.
func (n *Node) SearchJournal(ctx context.Context, verb string, q host.JournalQuery) (f Found, err error) {
	if err := n.BringAgent(ctx); err != nil {
		return f, err
	}
	arguments, err := json.Marshal(q)
	if err != nil {
		return f, err
	}
	out, err := n.Run(ctx, agentPath, JournalAgent, verb, string(arguments))
	if err != nil {
		return f, fmt.Errorf("%w: %s", err, Tail(out))
	}
	// Other output precedes the result.
	if err := json.Unmarshal([]byte(out[max(0, bytes.IndexByte([]byte(out), '{')):]), &f); err != nil {
		return f, fmt.Errorf("%w: %s", err, Tail(out))
	}
	if f.Failure != "" {
		return f, errors.New(f.Failure)
	}
	return f, nil
}
