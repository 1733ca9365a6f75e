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

// The last known good configuration of a component is kept in its own folder: each content in a file named after its hash, and a
// list that maps places to hashes. The list is written last, so that a crash leaves either the old or the new configuration, and
// unchanged contents are not rewritten.

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

func (e *Engine) keepGood(id ID, was, now []host.File) error {
	kept := map[host.Place]host.File{}
	for _, f := range was {
		kept[f.Place] = f
	}
	list, used := make([]goodFile, len(now)), map[string]bool{goodList: true, goodConfig: true, goodOpenings: true}
	for i, f := range now {
		f = f.Whole()
		list[i] = goodFile{f.Place, hex.EncodeToString(f.Digest().Sum)}
		used[list[i].Hash] = true
		if old, there := kept[f.Place]; there && old.Same(f) {
			continue
		}
		if err := secret.Save(e.goodPath(id, list[i].Hash), f.Content); err != nil {
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
	entries, err := os.ReadDir(e.goodPath(id, ""))
	if err != nil {
		return err
	}
	for _, x := range entries {
		if !used[x.Name()] {
			if err := os.Remove(e.goodPath(id, x.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
