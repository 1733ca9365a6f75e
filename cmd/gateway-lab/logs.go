package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/lab"
)

// window is how much of the end of a log file is searched for its last lines.
const window = 256 << 10

func logsCommand() *cobra.Command {
	var follow bool
	var lines, node int
	cmd := &cobra.Command{
		Use:   "logs [UNIT]",
		Short: "Show the last log lines of a lab, running or ended",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := cmd.Flags().GetString("dir")
			if err != nil {
				return err
			}
			unit := "*"
			if len(args) == 1 {
				unit = args[0]
			}
			files, err := filepath.Glob(filepath.Join(lab.NodeDir(dir, node), "log", unit+".log"))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("no log of %s in %s", strings.Replace(unit, "*", "any unit", 1), dir)
			}
			return printLogs(cmd.Context(), cmd.OutOrStdout(), files, lines, follow)
		},
	}
	cmd.Flags().IntVar(&node, "node", 1, "which gateway, if there are several")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue with new lines")
	cmd.Flags().IntVarP(&lines, "lines", "n", 20, "how many lines of each unit")
	return cmd
}

// printLogs prints the last lines of the files. If there are several, each line starts with its unit.
func printLogs(ctx context.Context, out io.Writer, files []string, lines int, follow bool) error {
	var logs []*logFile
	for _, path := range files {
		l := &logFile{path: path}
		if len(files) > 1 {
			l.prefix = fmt.Sprintf("%-18s ", strings.TrimSuffix(filepath.Base(path), ".log"))
		}
		if err := l.last(out, lines); err != nil {
			return err
		}
		logs = append(logs, l)
	}
	for follow {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
		for _, l := range logs {
			if err := l.next(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// logFile is a log file that is polled for new lines.
type logFile struct {
	path, prefix string
	file         os.FileInfo // identity of the file at the last read
	offset       int64
	rest         []byte // a line that has not ended yet
}

func (l *logFile) last(out io.Writer, lines int) error {
	content, err := l.read()
	if err != nil {
		return err
	}
	all := bytes.SplitAfter(content, []byte("\n"))
	if n := len(all) - 1; n > lines { // the last element is what follows the last newline
		all = all[n-lines:]
	}
	return l.print(out, bytes.Join(all, nil))
}

// next prints new lines.
func (l *logFile) next(out io.Writer) error {
	content, err := l.read()
	if err != nil {
		return err
	}
	return l.print(out, content)
}

// read returns the end of the file on the first call, and what is new on later ones. After a rotation it starts with the
// beginning of the new file.
func (l *logFile) read() ([]byte, error) {
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // between two files
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case l.file == nil:
		l.offset = max(0, info.Size()-window)
	case !os.SameFile(l.file, info):
		l.offset = 0
	}
	l.file = info
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(f)
	l.offset += int64(len(content))
	return content, err
}

// print prints the complete lines.
func (l *logFile) print(out io.Writer, content []byte) error {
	l.rest = append(l.rest, content...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		if end < 0 {
			return nil
		}
		if _, err := fmt.Fprintf(out, "%s%s\n", l.prefix, l.rest[:end]); err != nil {
			return err
		}
		l.rest = l.rest[end+1:]
	}
}
