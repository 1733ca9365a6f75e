package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"edge.internal/gateway/test/node"
)

const (
	installRelease = "bookworm"
	// installRounds is the maximum number of installations per side: each takes minutes.
	installRounds = 3
)

// measureInstall compares the installation of the gateway on a bare Debian with that of the same daemons without it, and
// with wireguard-go, which it only recommends. What Debian has is downloaded before, and written to memory, so that neither the network nor
// the disk is part of it.
func measureInstall(ctx context.Context, s settings) (goals []goal, err error) {
	fmt.Println("the package, as it is shipped")
	dist, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dist)
	if err := node.Make(ctx, ".", dist, nil, "package", "repository"); err != nil {
		return nil, err
	}
	var bare, added, installed, answered, part []float64
	measure := []func(*node.Node) error{
		func(n *node.Node) error {
			daemons, err := n.Sh(ctx, `apt-cache show gateway | sed -n 's/^Depends: //p' | sed 's/([^)]*)//g; s/,/ /g'`)
			if err != nil {
				return err
			}
			took, err := seconds(func() error { return n.Install(ctx, append(strings.Fields(daemons), "wireguard-go")...) })
			if err != nil {
				return err
			}
			bare = append(bare, took)
			took, err = seconds(func() error { return n.Install(ctx, "gateway") })
			added = append(added, took)
			return err
		},
		func(n *node.Node) error {
			took, err := seconds(func() error { return n.Install(ctx, "gateway", "wireguard-go") })
			if err != nil {
				return err
			}
			installed = append(installed, took)
			waited, err := seconds(func() error { return consoleAnswers(ctx, n) })
			answered = append(answered, took+waited)
			return err
		},
	}
	for i := range min(s.rounds, installRounds) {
		for turn := range measure {
			side := (i + turn) % 2
			fmt.Printf("a bare Debian, %s the gateway; load %s\n", []string{"without", "with"}[side], loadAverage())
			if err := onBareDebian(ctx, dist, measure[side]); err != nil {
				return nil, err
			}
		}
		part = append(part, answered[i]-bare[i])
	}
	return []goal{
		{"I1 install on a bare Debian until the console answers", median(answered), "s", 180, false, fmt.Sprintf("%s: installed; %s: its daemons alone", inSeconds(installed), inSeconds(bare))},
		{"   the gateway's own part of it", median(part), "s", 20, false, inSeconds(part)},
		{"   installed over its daemons", median(added), "s", 0, true, "for scale; " + inSeconds(added)},
	}, nil
}

// onBareDebian measures something on a Debian that has nothing yet, and knows the repository in the folder dist.
func onBareDebian(ctx context.Context, dist string, measure func(*node.Node) error) (err error) {
	n, err := node.Boot(ctx, installRelease)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.Prepare(ctx); err != nil {
		return err
	}
	if err := n.Offer(ctx, dist); err != nil {
		return err
	}
	return measure(n)
}

// consoleAnswers waits until a browser gets the console of a node, and the API behind it has its database.
func consoleAnswers(ctx context.Context, n *node.Node) error {
	browser := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: n.Dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the gateway's certificate is self-signed
	}}
	has := func(path, text string) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+node.Address+":3443"+path, nil)
		if err != nil {
			return false
		}
		res, err := browser.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return err == nil && res.StatusCode == http.StatusOK && strings.Contains(string(body), text)
	}
	return node.Wait(ctx, "the console answers", time.Minute, func() bool {
		return has("/", "<html") && has("/api/v1/system/health", `"database":"up"`)
	})
}

// inSeconds shows times for people.
func inSeconds(times []float64) string {
	parts := make([]string, len(times))
	for i, t := range times {
		parts[i] = fmt.Sprintf("%.1f", t)
	}
	return strings.Join(parts, ", ") + " s"
}
