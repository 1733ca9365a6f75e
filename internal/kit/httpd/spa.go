package httpd

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"edge.internal/gateway/internal/kit/fault"
)

const noncePlaceholder = "__CSP_NONCE__"

func contentPolicy(nonce string) string {
	style := "'self'"
	if nonce != "" {
		style += " 'nonce-" + nonce + "'"
	}
	return "default-src 'self'; script-src 'self'; style-src " + style + "; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
		"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

const noApp = `<!doctype html><meta charset="utf-8"><title>Gateway</title><p>The API is running. The browser UI is not part of this build: run <code>make build</code>.`

// App serves the single-page app: hashed assets are cached for long, index.html is never cached and gets a fresh nonce.
func (r *Router) App(files fs.FS) http.Handler {
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		index = []byte(noApp)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			r.fail(w, req, fault.New(fault.MethodNotAllowed, "This route accepts GET and HEAD."))
			return
		}
		name := strings.TrimPrefix(path.Clean(req.URL.Path), "/")
		if name != "" && name != "index.html" && serveFile(w, req, files, name) {
			return
		}
		// A missing asset must not become a page, which the browser would run as a script. Addresses of pages may contain a dot,
		// too, such as a client's IP address, but a browser that opens one accepts HTML.
		if name == "assets" || strings.HasPrefix(name, "assets/") || path.Ext(name) != "" && name != "index.html" && !strings.Contains(req.Header.Get("Accept"), "text/html") {
			r.fail(w, req, fault.New(fault.NotFound, "This file does not exist."))
			return
		}
		nonce := make([]byte, 16)
		_, _ = rand.Read(nonce)
		text := base64.RawStdEncoding.EncodeToString(nonce)
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy(text))
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-cache, no-store, must-revalidate")
		h.Set("Pragma", "no-cache")
		body := bytes.ReplaceAll(index, []byte(noncePlaceholder), []byte(text))
		h.Set("Content-Length", fmt.Sprint(len(body)))
		if req.Method == http.MethodGet {
			_, _ = w.Write(body)
		}
	})
}

// serveFile serves one file of the app, compressed if the browser accepts that.
func serveFile(w http.ResponseWriter, req *http.Request, files fs.FS, name string) bool {
	if info, err := fs.Stat(files, name); err != nil || info.IsDir() {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Vary", "Accept-Encoding")
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	accepted := req.Header.Get("Accept-Encoding")
	for _, form := range []struct{ encoding, suffix string }{{"br", ".br"}, {"gzip", ".gz"}, {"", ""}} {
		if !strings.Contains(accepted, form.encoding) {
			continue
		}
		body, err := fs.ReadFile(files, name+form.suffix)
		if err != nil {
			continue
		}
		if form.encoding != "" {
			h.Set("Content-Encoding", form.encoding)
		}
		h.Set("Content-Length", fmt.Sprint(len(body)))
		if req.Method == http.MethodGet {
			_, _ = w.Write(body)
		}
		return true
	}
	return false
}
