package host

import "context"

const (
	// vrrpFolder is where keepalived and the gateway leave each other word.
	vrrpFolder = "/run/keepalived"
	// VRRPStates is the pipe in which keepalived says what it becomes.
	VRRPStates = vrrpFolder + "/states"
	// VRRPProbeUser and VRRPProbeGroup are who runs VRRPProbe.
	VRRPProbeUser, VRRPProbeGroup = "nobody", "nogroup"
	// VRRPProbe is what keepalived runs to see whether the reverse proxy answers.
	VRRPProbe = `"/usr/bin/curl -q --silent --output /dev/null --noproxy 127.0.0.1 --max-time 2 http://127.0.0.1/"`
)

// RouterState is what keepalived is among the nodes of a cluster.
type RouterState string

// The states.
const (
	RouterMaster RouterState = "master" // has the virtual addresses
	RouterBackup RouterState = "backup" // waits for the master to be gone
	RouterFault  RouterState = "fault"  // cannot have them: its link is down
	RouterStop   RouterState = "stop"   // ends
)

// VirtualRouter is the running keepalived.
type VirtualRouter interface {
	// FollowRouter tells what keepalived becomes, first what was not told yet, until the context ends. One that does not run says nothing.
	FollowRouter(ctx context.Context, told func(RouterState)) error
}
