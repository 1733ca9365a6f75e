package machine

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/filter/nfnl"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// While another program constantly changes its own table, every change becomes live at once, and no acknowledged
// rule is ever missing from the kernel.
func busyNeighbour(t *testing.T, r *rig) {
	applies := longtest.Number(t, "GATEWAY_NEIGHBOUR_APPLIES", 20, 60)
	r.Run(t, lab.Gateway, "nft", "add table inet neighbour; add set inet neighbour blocked { type ipv4_addr; }")
	defer r.Run(t, lab.Gateway, "nft", "delete", "table", "inet", "neighbour")

	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	var changes, looks atomic.Int64
	work.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			verb := []string{"add", "delete"}[i%2]
			cmd, err := r.Command(ctx, lab.Gateway, "nft", verb+" element inet neighbour blocked { 192.0.2.1 }")
			if err == nil {
				err = cmd.Run()
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				t.Errorf("the neighbour: %v", err)
				return
			}
			changes.Add(1)
			time.Sleep(50 * time.Millisecond) // its pace, which nothing waits for
		}
	})
	var answered struct {
		sync.Mutex
		ids []string
	}
	work.Go(func() {
		err := r.Within(lab.Gateway, func() error {
			var kernel nfnl.Socket
			defer kernel.Close()
			for ctx.Err() == nil {
				answered.Lock()
				ids := answered.ids
				answered.Unlock()
				missing, err := missingRules(ctx, &kernel, ids)
				// While the kernel puts one table in the place of another, which decides already, its answer may have no rule at all. An
				// older table would have most of them.
				for deadline := time.Now().Add(10 * time.Second); err == nil && len(ids) > 0 && missing == len(ids) && time.Now().Before(deadline); {
					missing, err = missingRules(ctx, &kernel, ids)
				}
				switch {
				case ctx.Err() != nil:
					return nil
				case err != nil:
					return err
				case missing > 0:
					return fmt.Errorf("look %d: of %d rules that were answered, %d are not in the kernel", looks.Load(), len(ids), missing)
				}
				looks.Add(1)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})

	// It continues until the other program has run often enough, however fast the applies are.
	tried := func() bool { return changes.Load() >= int64(applies)/4 && looks.Load() >= int64(applies) }
	degraded, n := 0, 0
	for ; n < applies || !tried() && n < 100*applies; n++ {
		var row struct{ ID string }
		a := r.Must(t, http.MethodPost, "/firewall/rules", fields{"name": fmt.Sprint("rule ", n), "src_zone": "lan", "dst_zone": "wan", "action": "accept"}, 201, &row)
		if got := a.Header.Get("Gateway-Apply"); got != "packet-filter=live" {
			degraded++
			t.Errorf("apply %d: %s", n, got)
		}
		answered.Lock()
		answered.ids = append(answered.ids[:len(answered.ids):len(answered.ids)], row.ID)
		answered.Unlock()
	}
	if !tried() {
		t.Errorf("too little was tried: %d changes of the neighbour, %d looks", changes.Load(), looks.Load())
	}
	t.Logf("%d applies beside %d changes of a neighbour: %d degraded, %d looks at the kernel", n, changes.Load(), degraded, looks.Load())
}

// missingRules counts the rules that the kernel's table does not have.
func missingRules(ctx context.Context, kernel *nfnl.Socket, ids []string) (missing int, err error) {
	read, err := kernel.ReadCounters(ctx, "gateway", "gid:")
	has := map[string]bool{}
	for _, c := range read.List {
		has[c.Tag] = true
	}
	for _, id := range ids {
		if !has[id] {
			missing++
		}
	}
	return missing, err
}

// A gateway whose packet filter cannot be loaded forwards nothing: it is closed, not open.
func noForwardingWithoutAFilter(t *testing.T, r *rig) {
	r.rules(t, fields{"src_zone": "wan", "dst_zone": "lan", "service_object_id": r.service(t, "tcp+udp", 7001)})
	reached := []probe{{lab.Wan, "tcp", lan4, 7001, open}, {lab.Wan, "tcp", lan6, 7001, open}}
	r.expect(t, reached...)
	forwarding := func() string {
		return strings.Join(strings.Fields(r.Run(t, lab.Gateway, "cat", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding")), " ")
	}

	// As after a boot: no table, no forwarding; and no nft that could be run.
	if err := r.Units().Stop(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	r.Run(t, lab.Gateway, "nft", "flush", "ruleset")
	r.Run(t, lab.Gateway, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv6/conf/all/forwarding")
	r.Run(t, lab.Gateway, "mount", "--bind", "/dev/null", "/usr/sbin/nft")
	hidden := true
	show := func() {
		if hidden {
			hidden = false
			r.Run(t, lab.Gateway, "umount", "/usr/sbin/nft")
		}
	}
	defer show()
	if err := r.Units().Start(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	r.back(t)
	waittest.UntilNil(t, "the network says why it does not forward", func() error {
		var components []struct {
			Name, State string
			LastError   string `json:"last_error"`
		}
		r.Must(t, http.MethodGet, "/system/components", nil, 200, &components)
		for _, c := range components {
			if c.Name == "network" && c.State == "degraded" && strings.Contains(c.LastError, "the firewall is not loaded") {
				return nil
			}
		}
		return fmt.Errorf("%+v", components)
	})
	if got := forwarding(); got != "0 0" {
		t.Fatalf("forwards %s without a packet filter", got)
	}
	for _, p := range reached {
		if got, _ := r.attempt(p, silence); got != silent {
			t.Errorf("%s: %s without a packet filter", p, got)
		}
	}
	if got := forwarding(); got != "0 0" {
		t.Fatalf("forwards %s without a packet filter", got)
	}

	show()
	r.WaitState(t, "packet-filter", "live", 90*time.Second)
	r.WaitState(t, "network", "live", 90*time.Second)
	if got := forwarding(); got != "1 1" {
		t.Fatalf("forwards %s", got)
	}
	r.expect(t, reached...)

	// The table is removed: without it, nothing is forwarded, and it is restored at once.
	for range 3 {
		r.Run(t, lab.Gateway, "nft", "flush", "ruleset")
		waittest.Until(t, "the table and forwarding are back", func() bool {
			return forwarding() == "1 1" && strings.Contains(r.Run(t, lab.Gateway, "nft", "list", "tables"), "inet gateway")
		})
	}
	r.expect(t, reached...)
}
