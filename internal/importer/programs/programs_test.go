package programs

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
)

// ending hangs up when everything was read.
type ending struct {
	io.Reader
	hangUp func()
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.hangUp()
	}
	return n, err
}

// One import runs at a time, for administrators. A waiting caller that hangs up is removed.
func TestImportsTakeTurns(t *testing.T) {
	b := kittest.New(t)
	begun := make(chan struct{}, 10)
	goOn := make(chan struct{})
	Mount(b.Router, []Program{{Name: "slow", File: "slow.cfg", Read: func(context.Context, []byte, map[string]string) (*importer.Document, *importer.Report, error) {
		begun <- struct{}{}
		<-goOn
		return &importer.Document{}, &importer.Report{}, nil
	}}})
	b.Start(t)
	send := func(ctx context.Context, role string, hangUp func()) int {
		req := httptest.NewRequest(http.MethodPost, httpd.Prefix+"/configuration/import?from=slow", &ending{strings.NewReader("text"), hangUp}).WithContext(ctx)
		req.Header.Set("Authorization", "Bearer "+role)
		req.Header.Set("Content-Type", "text/plain")
		w := httptest.NewRecorder()
		b.Handler().ServeHTTP(w, req)
		return w.Code
	}
	if code := send(t.Context(), "viewer", func() {}); code != http.StatusForbidden {
		t.Errorf("a viewer gets %d", code)
	}
	first := make(chan int, 1)
	go func() { first <- send(t.Context(), "admin", func() {}) }()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan int, 1)
	go func() { second <- send(ctx, "admin", cancel) }()
	select {
	case <-second:
	case <-begun:
		t.Error("two run at a time")
	}
	close(goOn)
	if code := <-first; code != http.StatusOK {
		t.Errorf("the first gets %d", code)
	}
}
