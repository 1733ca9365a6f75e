package apply

import (
	"bytes"
	"crypto/sha256"
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

// The last known good configuration of a component is kept in a folder of its own: each content under its hash, and a
// list that says which belongs where. The list is written last, so that a crash leaves the old configuration or the
// new one, and what has not changed is not written again.

// goodFile is one line of the list.
type goodFile struct {
	Place host.Place `json:"place"`
	Hash  string     `json:"hash"`
}

const (
	goodList   = "list.json"
	goodConfig = "configuration" // sealed; of components that are volatile alone
	// goodOpenings is what the packet filter has to keep open for it.
	goodOpenings = "openings.json"
)

func (e *Engine) goodPath(id ID, name string) string { return filepath.Join(e.dir, string(id), name) }

// lastGood is the configuration that the daemon was last seen to run with; nil when there is none.
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

// keepGood keeps a configuration in the place of the one that was kept before.
func (e *Engine) keepGood(id ID, was, now []host.File) error {
	kept := map[host.Place][]byte{}
	for _, f := range was {
		kept[f.Place] = f.Content
	}
	list, used := make([]goodFile, len(now)), map[string]bool{goodList: true, goodConfig: true, goodOpenings: true}
	for i, f := range now {
		sum := sha256.Sum256(f.Content)
		list[i] = goodFile{f.Place, hex.EncodeToString(sum[:])}
		used[list[i].Hash] = true
		if bytes.Equal(kept[f.Place], f.Content) && kept[f.Place] != nil {
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
