// Command gateway-ctl helps on the box itself.
package main

import "edge.internal/gateway/internal/app"

func main() { app.Main(app.Program("gateway-ctl")) }
