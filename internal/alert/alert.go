// Package alert sends alerts to people: the channels, what was sent to each of them, the mutes, and the thresholds above which something
// counts as wrong. The other rooms report what goes wrong, through kit/alarm.
package alert

import (
	"net/http"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/live"
	"edge.internal/gateway/internal/kit/resource"
)

// Room manages alerts.
type Room struct {
	*kit.Kit
	deps     Deps
	channels resource.Kind[Channel]
	mutes    resource.Kind[Mute]
	settings resource.Singleton[Settings]
	live     live.Feed[Event]
	pace     pace
	timing   timing
}

// Deps holds what other rooms provide.
type Deps struct {
	// FQDN returns the gateway's own name for the messages; it may be empty.
	FQDN func() string
	// Kinds lists every kind that a room reports.
	Kinds []*alarm.Kind
}

var (
	testKind = &alarm.Kind{Name: "alert.test", Severity: alarm.Info, Meaning: "A test, sent by an administrator."}
	// Digest is sent instead of many single messages.
	Digest = &alarm.Kind{Name: "alert.digest", Severity: alarm.Warning, Meaning: "Several alerts in one message, because there were many."}
)

// Alarms lists the kinds that this room reports.
var Alarms = []*alarm.Kind{testKind, Digest}

func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d, settings: settings, pace: pace{sent: map[uuid.UUID]*sent{}}, timing: usual}
	r.channels, r.mutes = r.channelKind(), r.muteKind()
	r.live = live.Feed[Event]{DB: k.DB, Channel: alarm.Channel, Announced: r.announced, Newest: r.newest, ID: func(e Event) uuid.UUID { return e.ID }}
	return r
}

func (r *Room) Mount() {
	r.Resources.Declare("alert_deliveries", resource.Local)
	r.channels.Mount(r.Resources)
	r.mutes.Mount(r.Resources)
	r.settings.Mount(r.Resources)
	r.mountEvents()
	r.mountTest()
	httpd.Handle(r.Router, http.MethodGet, "/alerts/kinds", httpd.Read, tag.Doc("alert.kinds", "List the kinds of alerts and their meaning"),
		func(*httpd.Call, struct{}) (list []alarm.Kind, err error) {
			for _, k := range r.deps.Kinds {
				list = append(list, *k)
			}
			return list, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/alerts/open", httpd.Read, tag.Doc("alert.open", "Open alerts, most severe first"),
		func(c *httpd.Call, _ struct{}) ([]alarm.Condition, error) { return r.Alarms.Open(c) })
}

const tag httpd.Tag = "alert"

// host returns the gateway's name for messages.
func (r *Room) host() string {
	if name := r.deps.FQDN(); name != "" {
		return name
	}
	return r.Host.Facts().Hostname
}
