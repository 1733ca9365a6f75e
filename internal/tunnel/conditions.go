package tunnel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/watch"
)

var tunnelDown = &alarm.Kind{
	Name: "wg.tunnel.down", Severity: alarm.Error, Mutable: true, Meaning: "A tunnel to another gateway is down.",
}

// Check finds tunnels to other gateways without contact.
var Check = watch.Check{
	Name: "watch.tunnels", Title: "Check for tunnels that are down", Every: 5 * time.Minute, Later: true,
	Kinds: []*alarm.Kind{tunnelDown}, Conditions: conditions,
}

// neverYet is how long a tunnel may take for its first handshake.
const neverYet = time.Minute

func conditions(ctx context.Context, s *watch.Scene) (found []alarm.Alarm, err error) {
	rows, err := watch.Get[[]Interface](ctx, s, "/tunnel/interfaces")
	if err != nil {
		return nil, err
	}
	status, err := watch.Get[map[string]PeerStatus](ctx, s, "/tunnel/status")
	if err != nil {
		return nil, err
	}
	devices, err := watch.Get[[]Device](ctx, s, "/tunnel/devices")
	if err != nil {
		return nil, err
	}
	elsewhere := map[string]bool{}
	for _, d := range devices {
		elsewhere[d.Name] = d.Elsewhere
	}
	limit := time.Duration(s.TunnelDownMinutes) * time.Minute
	for i := range rows {
		x := &rows[i]
		name := x.Name.String()
		if x.Mode != "client" || !x.Active || elsewhere[name] {
			continue
		}
		peer := status[x.UpstreamPublicKey.String()]
		if peer.Interface != name {
			peer = PeerStatus{}
		}
		if peer.Error != "" {
			return nil, errors.New(peer.Error)
		}
		message := ""
		switch at := peer.LastHandshake; {
		case at == nil && s.Now.Sub(x.UpdatedAt) > neverYet:
			message = "There has been no handshake yet."
		case at != nil && s.Now.Sub(*at) > limit:
			message = fmt.Sprintf("The last handshake was at %s.", at.UTC().Format("2006-01-02 15:04 UTC"))
		default:
			continue
		}
		found = append(found, alarm.Alarm{Kind: tunnelDown, Key: x.ID.String(), Subject: "Tunnel " + name, Message: message})
	}
	return found, nil
}
