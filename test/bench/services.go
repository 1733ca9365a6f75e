package main

import "context"

// measureServices measures the services other than the proxies and the packet filter.
func measureServices(ctx context.Context, s settings) (goals []goal, err error) {
	for _, measure := range []func(context.Context, settings) ([]goal, error){measureDNS, measureForwardProxy, measureDHCP, measureTunnel} {
		got, err := measure(ctx, s)
		if err != nil {
			return nil, err
		}
		goals = append(goals, got...)
	}
	return goals, nil
}
