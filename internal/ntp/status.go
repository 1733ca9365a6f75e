package ntp

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/httpd"
)

// Status is the state of the clock.
type Status struct {
	Synchronised  bool    `json:"synchronised" doc:"Whether the clock follows a source."`
	Stratum       int     `json:"stratum" doc:"Distance from a reference clock; 0 means not synchronised."`
	ReferenceID   string  `json:"reference_id" doc:"Reference id of the source, eight hex digits."`
	Source        string  `json:"source" doc:"Address of the source that is followed."`
	OffsetSeconds float64 `json:"offset_seconds" doc:"How far the clock is from the source's time; positive when it is ahead."`
	RMSSeconds    float64 `json:"rms_offset_seconds" doc:"Long-term average of the offset."`
	FrequencyPPM  float64 `json:"frequency_ppm" doc:"How fast the clock drifts without correction."`
	RootDelay     float64 `json:"root_delay_seconds" doc:"Network delay to the reference clock."`
	LeapStatus    string  `json:"leap_status" doc:"Leap second status of the source."`
	Error         string  `json:"error" doc:"Why the daemon could not be asked; empty when it could."`
}

// Source is one time source as the daemon sees it.
type Source struct {
	Mode          string  `json:"mode" enum:"server,peer,reference" doc:"What the source is."`
	State         string  `json:"state" enum:"selected,combined,not combined,unreachable,falseticker,jittery,unusable" doc:"State of the source."`
	Address       string  `json:"address" doc:"Address, or a placeholder while the name does not resolve."`
	Stratum       int     `json:"stratum" doc:"Its distance from a reference clock."`
	Poll          int     `json:"poll" doc:"Polling interval, log2 seconds."`
	Reach         int     `json:"reach" doc:"Which of the last eight polls were answered, as bits; 255 is all."`
	LastRxSeconds *int    `json:"last_rx_seconds" doc:"Seconds since the last answer; null when there was none."`
	OffsetSeconds float64 `json:"offset_seconds" doc:"Measured offset."`
	ErrorSeconds  float64 `json:"error_seconds" doc:"Margin of error of the offset."`
}

// Sources lists the time sources.
type Sources struct {
	Sources []Source `json:"sources" doc:"What the daemon asks for the time."`
	Error   string   `json:"error" doc:"Why the daemon could not be asked; empty when it could."`
}

// ForcedSync is the result of a forced synchronisation.
type ForcedSync struct {
	Burst   bool   `json:"burst" doc:"Whether every source is measured now."`
	Stepped bool   `json:"stepped" doc:"Whether the clock was stepped to the measured time."`
	Error   string `json:"error" doc:"What the daemon refused; empty if nothing."`
}

func (r *Room) mountStatus() {
	httpd.Handle(r.Router, http.MethodGet, "/ntp/status", httpd.Read, httpd.Doc{ID: "ntp.status", Tag: "ntp", Summary: "State of the clock"},
		func(c *httpd.Call, _ struct{}) (Status, error) {
			s, err := r.status(c)
			s.Error = httpd.Problem(c, "The time daemon", err)
			return s, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/ntp/sources", httpd.Read, httpd.Doc{ID: "ntp.sources", Tag: "ntp", Summary: "The time sources as the daemon sees them"},
		func(c *httpd.Call, _ struct{}) (Sources, error) {
			list, err := r.sources(c)
			if err != nil {
				return Sources{Error: httpd.Problem(c, "The time daemon", err)}, nil
			}
			return Sources{Sources: list}, nil
		})
	httpd.Handle(r.Router, http.MethodPost, "/ntp/force-sync", httpd.Write.Here(), httpd.Doc{ID: "ntp.force-sync", Tag: "ntp", Summary: "Query all sources now and step the clock", Audit: "ntp.force-sync"},
		func(c *httpd.Call, _ struct{}) (ForcedSync, error) { return r.forceSync(c) })
}

func (r *Room) ask(ctx context.Context, command host.Command) ([]record, error) {
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	out, err := r.Host.Run(ctx, command, host.Input{})
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(strings.NewReader(out.Stdout)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading chronyc's answer: %w", err)
	}
	records := make([]record, len(rows))
	for i, row := range rows {
		records[i] = row
	}
	return records, nil
}

// record is one line of chronyc -c. A missing or non-numeric field reads as zero.
type record []string

func (r record) text(i int) string {
	if i >= len(r) {
		return ""
	}
	return r[i]
}

func (r record) int(i int) int {
	n, _ := strconv.Atoi(r.text(i))
	return n
}

func (r record) float(i int) float64 {
	f, _ := strconv.ParseFloat(r.text(i), 64)
	return f
}

func (r *Room) status(ctx context.Context) (Status, error) {
	records, err := r.ask(ctx, chrony.Tracking)
	if err != nil {
		return Status{}, err
	}
	if len(records) != 1 || len(records[0]) < 14 {
		return Status{}, fmt.Errorf("chronyc's tracking report has an unknown form")
	}
	x := records[0]
	s := Status{
		ReferenceID: x.text(0), Source: x.text(1), Stratum: x.int(2), OffsetSeconds: x.float(4), RMSSeconds: x.float(6),
		FrequencyPPM: x.float(7), RootDelay: x.float(10), LeapStatus: x.text(13),
	}
	s.Synchronised = s.Stratum > 0 && s.Stratum < 16 && s.ReferenceID != "00000000"
	return s, nil
}

var (
	modes  = map[string]string{"^": "server", "=": "peer", "#": "reference"}
	states = map[string]string{"*": "selected", "+": "combined", "-": "not combined", "?": "unreachable", "x": "falseticker", "~": "jittery"}
)

func (r *Room) sources(ctx context.Context) ([]Source, error) {
	records, err := r.ask(ctx, chrony.Sources)
	if err != nil {
		return nil, err
	}
	list := make([]Source, 0, len(records))
	for _, x := range records {
		reach, _ := strconv.ParseInt(x.text(5), 8, 64) // chronyc prints the register in octal
		s := Source{
			Mode: modes[x.text(0)], State: states[x.text(1)], Address: x.text(2), Stratum: x.int(3), Poll: x.int(4), Reach: int(reach),
			OffsetSeconds: x.float(8), ErrorSeconds: x.float(9),
		}
		// chronyc prints the largest 32-bit number for never.
		if ago := x.int(6); ago != math.MaxUint32 {
			s.LastRxSeconds = &ago
		}
		if s.State == "" {
			s.State = "unusable"
		}
		list = append(list, s)
	}
	return list, nil
}

func (r *Room) forceSync(ctx context.Context) (ForcedSync, error) {
	var done ForcedSync
	_, err := r.Host.Run(ctx, chrony.Burst, host.Input{})
	done.Burst = err == nil
	if err == nil {
		_, err = r.Host.Run(ctx, chrony.Makestep, host.Input{})
		done.Stepped = err == nil
	}
	if err != nil {
		done.Error = err.Error()
	}
	return done, r.Audit.Record(ctx, "ntp.force-sync", "chronyd", done)
}
