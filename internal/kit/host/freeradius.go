package host

// Radius is the running FreeRADIUS.
type Radius interface{}
