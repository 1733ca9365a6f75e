package apply

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/secret"
)

// The last known good configuration of a component is kept in its own folder: each content in a file named after its hash, or the hash
// of those of its parts, and a list that maps places to these names. The list is written last, so that a crash leaves either the old or
// the new configuration, and unchanged contents are not rewritten.

type goodFile struct {
	Place host.Place `json:"place"`
	Hash  string     `json:"hash"`
}

const (
	goodList   = "list.json"
	goodConfig = "configuration" // sealed; only for volatile components
	// goodOpenings holds what the packet filter must keep open for it.
	goodOpenings = "openings.json"
)

func (e *Engine) goodPath(id ID, name string) string { return filepath.Join(e.dir, string(id), name) }

// lastGood returns the configuration that the daemon was last known to run with; nil if there is none.
func (e *Engine) lastGood(id ID) []host.File {
	kept, err := e.readGood(id)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			e.log.Warn("last known good configuration is unreadable", "component", id, "err", err)
		}
		return nil
	}
	return kept
}

// hasGood reports whether there is a last known good configuration.
func (e *Engine) hasGood(id ID) bool {
	_, err := os.Stat(e.goodPath(id, goodList))
	return err == nil
}

func (e *Engine) readGood(id ID) ([]host.File, error) {
	b, err := os.ReadFile(e.goodPath(id, goodList))
	if err != nil {
		return nil, err
	}
	var list []goodFile
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	files := make([]host.File, len(list))
	for i, g := range list {
		content, err := os.ReadFile(e.goodPath(id, filepath.Base(g.Hash)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.Place, err)
		}
		files[i] = host.File{Place: g.Place, Content: content}
	}
	return files, nil
}

func (e *Engine) keepGood(id ID, now []host.File) error {
	there, err := e.goodNames(id)
	if err != nil {
		return err
	}
	list, used := make([]goodFile, len(now)), map[string]bool{goodList: true, goodConfig: true, goodOpenings: true}
	for i, f := range now {
		name := goodName(f)
		list[i], used[name] = goodFile{f.Place, name}, true
		if there[name] {
			continue
		}
		if err := secret.Save(e.goodPath(id, name), f.Text()); err != nil {
			return err
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := secret.Save(e.goodPath(id, goodList), b); err != nil {
		return err
	}
	for name := range there {
		if !used[name] {
			if err := os.Remove(e.goodPath(id, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func goodName(f host.File) string {
	if f.Parts != nil {
		sum := f.Parts.Sum()
		return hex.EncodeToString(sum[:])
	}
	return hex.EncodeToString(f.Digest().Sum)
}

// goodNames returns the names of the files in a component's folder.
func (e *Engine) goodNames(id ID) (map[string]bool, error) {
	entries, err := os.ReadDir(e.goodPath(id, ""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make(map[string]bool, len(entries))
	for _, x := range entries {
		names[x.Name()] = true
	}
	return names, nil
}
