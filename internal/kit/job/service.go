package job

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// ErrSilent is the error of Ready for a service that does not answer at all.
var ErrSilent = errors.New("gateway-api does not answer")

// Service is the gateway as its callers see it.
type Service struct {
	// Control is the API's control socket.
	Control string
	// Port is where HAProxy serves the console.
	Port int
	// Holders returns the programs that hold a port.
	Holders func(port int) ([]string, error)
}

const reverseProxy = "reverse-proxy"

// Live returns the components that are live. If the API does not answer, or has not applied everything, it may be starting, and
// gets the time that a start takes. Before the setup there are none, and without an API the result is empty.
func (s Service) Live(ctx context.Context, w Waiting) []string {
	ctx, cancel := context.WithTimeout(ctx, w.Silence)
	defer cancel()
	live := []string{}
	for reported := false; ; {
		states, err := s.components(ctx)
		pending := false
		if err == nil {
			live = live[:0]
		} else if !reported {
			fmt.Fprintln(Output(ctx), "the gateway does not list its components:", err)
			reported = true
		}
		for name, state := range states {
			pending = pending || state == "pending"
			if state == "live" {
				live = append(live, name)
			}
		}
		if !pending && !errors.Is(err, ErrSilent) || ctx.Err() != nil {
			slices.Sort(live)
			return live
		}
		select {
		case <-ctx.Done():
		case <-time.After(w.Every):
		}
	}
}

func (s Service) components(ctx context.Context) (map[string]string, error) {
	var list []struct{ Name, State string }
	err := get(ctx, s.control(), "http://gateway/api/v1/system/components", &list)
	states := map[string]string{}
	for _, c := range list {
		states[c.Name] = c.State
	}
	return states, err
}

// Waiting returns the components that have not been applied yet, and sentences about others that are not live.
func (s Service) Waiting(ctx context.Context) (waiting, idle []string) {
	states, err := s.components(ctx)
	if err != nil {
		return []string{err.Error()}, nil
	}
	for name, state := range states {
		switch state {
		case "pending":
			waiting = append(waiting, name)
		case "degraded":
			idle = append(idle, fmt.Sprintf("The component %s is not live. See its reason.", name))
		}
	}
	slices.Sort(idle)
	return waiting, idle
}

// Ready returns an error unless a version serves: it answers and has its database, what was live is live, and the console answers
// through HAProxy.
func (s Service) Ready(ctx context.Context, version string, live []string) error {
	if err := s.healthy(ctx, s.control(), "http://gateway", version); err != nil {
		return err
	}
	if len(live) == 0 {
		return nil
	}
	states, err := s.components(ctx)
	if err != nil {
		return err
	}
	var waiting []string
	for _, name := range live {
		if states[name] != "live" {
			waiting = append(waiting, name+" is "+cmp.Or(states[name], "missing"))
		}
	}
	if len(waiting) > 0 {
		return errors.New(strings.Join(waiting, ", "))
	}
	if !slices.Contains(live, reverseProxy) {
		return nil
	}
	holders, err := s.Holders(s.Port)
	if err != nil {
		return err
	}
	if !slices.Contains(holders, "haproxy") {
		return fmt.Errorf("HAProxy does not hold port %d", s.Port)
	}
	console := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the connection does not leave the machine
	}
	if err := s.healthy(ctx, console, "https://gateway", version); err != nil {
		return fmt.Errorf("the console does not answer through HAProxy: %w", err)
	}
	return nil
}

// healthy checks the API's version and database.
func (s Service) healthy(ctx context.Context, by *http.Transport, base, version string) error {
	var health struct{ Version, Database string }
	if err := get(ctx, by, base+"/api/v1/system/health", &health); err != nil {
		return err
	}
	if health.Version != upstream(version) {
		return fmt.Errorf("gateway-api is version %s", health.Version)
	}
	if health.Database != "up" {
		return errors.New("gateway-api has no database")
	}
	return nil
}

// upstream strips what Debian adds to a version before and after.
func upstream(version string) string {
	if _, after, ok := strings.Cut(version, ":"); ok {
		version = after
	}
	if i := strings.LastIndex(version, "-"); i >= 0 {
		version = version[:i]
	}
	return version
}

func (s Service) control() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.Control)
	}}
}

const askWithin = 10 * time.Second

// get makes a request to the API, and decodes the data in the envelope.
func get(ctx context.Context, by *http.Transport, address string, into any) error {
	defer by.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: by}).Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // without the address, which is made up
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSilent, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSilent, err)
	}
	answer := struct {
		Data  any
		Error *struct{ Message string }
	}{Data: into}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("gateway-api answered %s", res.Status)
	}
	if answer.Error != nil {
		return errors.New(answer.Error.Message)
	}
	return nil
}
