package ids

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

const (
	// dropsLimit is the maximum size of the log of dropped packets; one older file of that size is kept.
	dropsLimit = 8 << 20
	// dropsLook is how often to check whether the settings want the log.
	dropsLook = 5 * time.Second
)

// Drop is a packet that the packet filter dropped.
type Drop struct {
	At          time.Time
	Source      netip.Addr
	Destination netip.Addr
	Proto       string
	Port        uint16
}

// dropLog is the log of dropped packets for CrowdSec. The packet filter's own log is not in a file.
type dropLog struct{ path string }

func (l dropLog) append(drops []Drop) error {
	var lines bytes.Buffer
	for _, d := range drops {
		line, err := json.Marshal(struct {
			Time        time.Time `json:"time"`
			Source      string    `json:"source"`
			Destination string    `json:"destination"`
		}{d.At.UTC(), d.Source.String(), fmt.Sprintf("%s/%s/%d", d.Destination, d.Proto, d.Port)})
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	if info, err := os.Stat(l.path); err == nil && info.Size()+int64(lines.Len()) > dropsLimit {
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(lines.Bytes())
	return errors.Join(err, f.Close())
}

// logDrops writes the log while the settings want it, until the context ends.
func (r *Room) logDrops(ctx context.Context) {
	for ctx.Err() == nil {
		if r.wantsDrops(ctx) {
			r.followDrops(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(dropsLook):
		}
	}
}

func (r *Room) wantsDrops(ctx context.Context) bool {
	s, err := r.settings.Load(ctx, r.DB)
	return err == nil && s.Enabled && s.Sources.PacketFilter
}

// followDrops writes the log until it is no longer wanted. It skips packets dropped before it began.
func (r *Room) followDrops(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began, looked := time.Now(), time.Now()
	err := r.deps.Drops(ctx, func(drops []Drop) {
		fresh := drops[:0]
		for _, d := range drops {
			if !d.At.Before(began) {
				fresh = append(fresh, d)
			}
		}
		if len(fresh) > 0 {
			if err := r.drops.append(fresh); err != nil {
				r.Log.Warn("dropped packets are not logged for CrowdSec", "err", err)
				cancel()
			}
		}
		if time.Since(looked) > dropsLook {
			looked = time.Now()
			if !r.wantsDrops(ctx) {
				cancel()
			}
		}
	})
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("the packet filter's log is not followed", "err", err)
	}
}
