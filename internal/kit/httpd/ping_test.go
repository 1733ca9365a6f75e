package httpd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// LG03: a reader is pinged every 30 s. One that does not answer within the same time is disconnected, after at most 60 s.
func TestLG03SilentReaderIsGivenUp(t *testing.T) {
	if pingEvery != 30*time.Second {
		t.Errorf("pings come every %s", pingEvery)
	}
	over := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		conn, err := websocket.Accept(w, req, nil)
		if err != nil {
			over <- err
			return
		}
		defer conn.CloseNow()
		ctx, cancel := context.WithCancelCause(conn.CloseRead(context.Background()))
		defer cancel(nil)
		ping(ctx, cancel, conn, 50*time.Millisecond)
		over <- context.Cause(ctx)
	}))
	defer server.Close()
	conn, _, err := websocket.Dial(t.Context(), server.URL, nil) // it never reads, and therefore answers no ping
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	select {
	case err := <-over:
		if err == nil {
			t.Error("the stream ended without a reason")
		}
	case <-time.After(30 * time.Second):
		t.Error("a reader that answers nothing keeps its stream")
	}
}
