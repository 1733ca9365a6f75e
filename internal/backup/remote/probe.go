package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"

	"edge.internal/gateway/internal/kit/httpd"
)

// Test is the result of a test of a target.
type Test struct {
	OK         bool   `json:"ok" doc:"Whether every step worked."`
	Steps      []Step `json:"steps" doc:"The steps in order, up to the first that failed."`
	DurationMS int64  `json:"duration_ms" doc:"How long it took."`
}

type Step struct {
	Name  string `json:"name" enum:"connect,upload,delete" doc:"Connecting to the target and listing it, sending a file of 1 KB, and deleting it."`
	OK    bool   `json:"ok" doc:"Whether the step worked."`
	Error string `json:"error" doc:"What went wrong; empty when nothing did."`
}

func (r *Room) mountTest() {
	httpd.Handle(r.Router, http.MethodPost, "/backup-remotes/{id}/test", httpd.Write.Here(),
		httpd.Doc{ID: "backup.remote.test", Tag: "backup", Summary: "Send a file of 1 KB to an off-site target, and delete it there", Audit: "backup.remote.test"},
		func(c *httpd.Call, in idInput) (Test, error) {
			v, err := r.remotes.Get(c, r.DB, in.ID)
			if err != nil {
				return Test{}, err
			}
			result := r.test(c, v)
			return result, r.Audit.Record(c, "backup.remote.test", v.Label(), map[string]any{"id": v.ID, "ok": result.OK})
		})
}

const probeSize = 1 << 10

// test follows the path of an upload with a file that is not an archive.
func (r *Room) test(ctx context.Context, v *Remote) Test {
	start := r.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, r.bounds.ask)
	defer cancel()
	content := make([]byte, probeSize)
	_, _ = rand.Read(content)
	name := "gateway-probe-" + hex.EncodeToString(content[:8])
	var t target
	defer func() {
		if t != nil {
			t.close()
		}
	}()
	out := Test{OK: true}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"connect", func() (err error) {
			if t, err = r.connect(ctx, v, maxAnswer); err != nil {
				return err
			}
			_, err = t.list(ctx, r.own())
			return err
		}},
		{"upload", func() error { return t.put(ctx, name, io.NewSectionReader(bytes.NewReader(content), 0, probeSize)) }},
		{"delete", func() error { return t.remove(ctx, name) }},
	} {
		done := Step{Name: step.name, OK: true}
		if err := step.do(); err != nil {
			done.OK, done.Error = false, explain(err).sentence
			out.OK = false
		}
		if out.Steps = append(out.Steps, done); !done.OK {
			break
		}
	}
	out.DurationMS = r.Clock.Now().Sub(start).Milliseconds()
	return out
}
