package lab_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/pires/go-proxyproto"

	"edge.internal/gateway/internal/kit/host"
)

// stub stands in for gateway-helper, gateway-api, gateway-scheduler and gateway-waf: just enough of them for a lab.
func stub() {
	db := flag.String("db", "", "")
	units := flag.String("units", "", "")
	root := flag.String("root", "", "")
	flag.String("listen", ":3443", "")
	flag.String("metrics", "127.0.0.1:9464", "")
	flag.String("helper", host.HelperSocket, "")
	flag.Bool("with-probe", false, "")
	flag.Parse()
	fmt.Println("stub runs", os.Args)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if filepath.Base(os.Args[0]) == "gateway-api" {
		if err := stubAPI(*db, *units, *root); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	if filepath.Base(os.Args[0]) == "gateway-helper" {
		if _, err := net.Listen("unix", host.HelperSocket); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	if filepath.Base(os.Args[0]) == "gateway-waf" {
		if _, err := net.Listen("unix", filepath.Join(*root, host.WAFSocket)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	<-stop
}

func stubAPI(db, units, root string) error {
	parsed, err := url.Parse(db)
	if err != nil {
		return err
	}
	postgres, err := net.Dial("unix", filepath.Join(parsed.Query().Get("host"), ".s.PGSQL.5432"))
	if err != nil {
		return err
	}
	postgres.Close()
	if err := os.WriteFile(filepath.Join(root, "/var/lib/gateway/setup-token"), []byte("stub-token\n"), 0o600); err != nil {
		return err
	}
	var setup atomic.Bool
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, data any) { json.NewEncoder(w).Encode(map[string]any{"data": data}) }
	mux.HandleFunc("GET /api/v1/system/health", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"client": r.RemoteAddr, "units": units, "root": root, "database": "up"})
	})
	mux.HandleFunc("GET /api/v1/setup/status", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"completed": setup.Load()})
	})
	mux.HandleFunc("POST /api/v1/setup/complete", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		os.WriteFile(filepath.Join(root, "/var/lib/gateway/setup.json"), body, 0o600)
		setup.Store(true)
		answer(w, nil)
	})
	mux.HandleFunc("POST /api/v1/auth/login", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"token": "stub-session"})
	})
	mux.HandleFunc("POST /api/v1/network/setup", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		os.WriteFile(filepath.Join(root, "/var/lib/gateway/networks.json"), append([]byte(r.Header.Get("Authorization")+" "), body...), 0o600)
		answer(w, nil)
	})
	listen := func(name string) (net.Listener, error) {
		path := filepath.Join(root, "/run/gateway", name)
		os.Remove(path)
		return net.Listen("unix", path)
	}
	control, err := listen("control.sock")
	if err != nil {
		return err
	}
	api, err := listen("api.sock")
	if err != nil {
		return err
	}
	go http.Serve(control, mux)
	(&httptest.Server{Listener: &proxyproto.Listener{Listener: api}, Config: &http.Server{Handler: mux}}).StartTLS()
	return nil
}
