// Command gateway-acl is squid's external ACL helper: it decides which requests the access list of the forward proxy allows. Only
// squid starts it.
package main

import (
	"fmt"
	"os"
	"time"

	"edge.internal/gateway/internal/fwdproxy/judge"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "gateway-acl: want the mark of squid's configuration, the file of the list and the socket")
		os.Exit(2)
	}
	o := judge.Options{Configuration: os.Args[1], List: os.Args[2], Socket: os.Args[3], Now: time.Now}
	if err := judge.Run(o, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gateway-acl:", err)
		os.Exit(1)
	}
}
