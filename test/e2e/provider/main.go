// Command provider is an identity provider for the browser tests: it always signs in jane.doe@example.com.
package main

import (
	"fmt"
	"log"
	"net"
	"os"

	"github.com/oauth2-proxy/mockoidc"
)

func main() { log.Fatal(serve(os.Args[1])) }

// serve prints the provider's address and the gateway's client, and serves until it is killed.
func serve(address string) error {
	m, err := mockoidc.NewServer(nil)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	if err := m.Start(l, nil); err != nil {
		return err
	}
	c := m.Config()
	fmt.Println(c.Issuer, c.ClientID, c.ClientSecret)
	select {}
}
