// Package control is a client of gateway-api on the machine itself, through a socket that only root and the gateway's user may
// open.
package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

// Socket returns the path of gateway-api's control socket.
func Socket(paths kit.Paths) string { return paths.Run("control.sock") }

// IsDown reports whether a request did not reach gateway-api.
func IsDown(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// Get reads from gateway-api.
func Get[T any](ctx context.Context, paths kit.Paths, path string) (T, error) {
	return Ask[T](ctx, paths, http.MethodGet, path, nil)
}

// Ask makes a request to gateway-api.
func Ask[T any](ctx context.Context, paths kit.Paths, method, path string, body []byte) (T, error) {
	return AskWithin[T](ctx, paths, time.Minute, method, path, body)
}

// AskWithin is Ask with another time limit.
func AskWithin[T any](ctx context.Context, paths kit.Paths, within time.Duration, method, path string, body []byte) (T, error) {
	return Send[T](ctx, paths, within, method, path, "", bytes.NewReader(body))
}

// Send makes a request with a body of the given type; JSON if empty.
func Send[T any](ctx context.Context, paths kit.Paths, within time.Duration, method, path, mime string, body io.Reader) (out T, err error) {
	client := httpd.SocketClient(Socket(paths), within)
	req, err := http.NewRequestWithContext(ctx, method, "http://gateway"+httpd.Prefix+path, body)
	if err != nil {
		return out, err
	}
	if mime != "" {
		req.Header.Set("Content-Type", mime)
	}
	res, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return out, err
	}
	out, refused, err := httpd.Open[T](answer)
	if err != nil {
		return out, fmt.Errorf("gateway-api answered %s: %w", res.Status, err)
	}
	if refused != nil {
		message := refused.Message
		for _, field := range slices.Sorted(maps.Keys(refused.Fields)) {
			message += " " + field + ": " + refused.Fields[field]
		}
		f := &fault.Error{Message: message}
		f.Kind, _ = fault.KindOf(refused.Code)
		if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
			f.RetryAfter = time.Duration(seconds) * time.Second
		}
		return out, f
	}
	return out, nil
}
