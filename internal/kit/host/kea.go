package host

// keaControl is where Kea takes commands.
const keaControl = "/run/kea/kea4-ctrl-socket"

// Leases is the running Kea.
type Leases interface{}
