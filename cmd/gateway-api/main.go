// Command gateway-api serves the API and the UI, and brings the machine to what is stored.
package main

import "edge.internal/gateway/internal/app"

func main() { app.Main(app.Program("gateway-api")) }
