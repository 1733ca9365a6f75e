// Command gateway-restore replaces the gateway's data by those of a backup, and takes that back when the gateway does not serve.
package main

import "edge.internal/gateway/internal/app"

func main() { app.Main(app.Program("gateway-restore")) }
