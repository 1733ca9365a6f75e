package conf

import (
	"fmt"
	"slices"
	"strings"
)

// WireGuard is the grammar of WireGuard's configuration files: sections in brackets, and lines of a key, an equals sign and
// comma-separated values. Some keys of wg-quick are shell commands, so only the keys in this list can be written.
var WireGuard Grammar = wireguard{}

type wireguard struct{}

var wireguardKeys = []string{
	"PrivateKey", "Address", "ListenPort", "DNS", "MTU", // of [Interface]
	"PublicKey", "PresharedKey", "AllowedIPs", "Endpoint", "PersistentKeepalive", // of [Peer]
}

func (wireguard) print(key string, args []Arg) (string, error) {
	if key == "[Interface]" || key == "[Peer]" {
		if len(args) > 0 {
			return "", fmt.Errorf("a section has no values")
		}
		return key, nil
	}
	if !slices.Contains(wireguardKeys, key) {
		return "", fmt.Errorf("is not an allowed key")
	}
	if len(args) == 0 {
		return "", fmt.Errorf("a key has a value")
	}
	values := make([]string, len(args))
	for i, a := range args {
		if err := plain(a.text); err != nil {
			return "", err
		}
		if strings.ContainsAny(a.text, " ,#;") {
			return "", fmt.Errorf("%q cannot be written as one value", a.text)
		}
		values[i] = a.text
	}
	return key + " = " + strings.Join(values, ", "), nil
}
