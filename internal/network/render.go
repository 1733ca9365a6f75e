package network

import (
	"encoding/json"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
)

// Render writes the desired state of the kernel's network, for people, and the names of the protocols that mark it and the tunnels.
// Neither file is used to apply it: that is done through the kernel's own interface.
func Render(c Config) ([]host.File, error) {
	protocols := conf.New(conf.Numbers)
	protocols.Line("250", conf.Word("gateway"))
	protocols.Line("251", conf.Word("gateway-tunnel"))
	names, err := protocols.Bytes()
	if err != nil {
		return nil, err
	}
	state, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	return []host.File{{Place: host.RouteProtocols, Content: names}, {Place: host.NetworkState, Content: append(state, '\n')}}, nil
}
