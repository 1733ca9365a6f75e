package guard

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

// keepalivedLines are the lines that the gateway writes. keepalived runs programs as root whenever something happens, and reads other
// files at any place: of all that, one probe is admitted.
var keepalivedLines = []*regexp.Regexp{
	exactly("}", "global_defs {", "router_id gateway", "enable_script_security", "script_user "+host.VRRPProbeUser+" "+host.VRRPProbeGroup, "vrrp_notify_fifo "+host.VRRPStates,
		"vrrp_script proxy {", "script "+host.VRRPProbe, "track_file drain {", "file "+host.VRRPDrain.Path(),
		"vrrp_instance gateway {", "state BACKUP", "unicast_peer {", "track_script {", "proxy", "track_file {", "drain", "track_interface {",
		"virtual_ipaddress {", "virtual_ipaddress_excluded {"),
	regexp.MustCompile(`^(?:interval|timeout|fall|rise|weight|priority|virtual_router_id) -?[0-9]{1,3}$`),
	regexp.MustCompile(`^interface ` + link + `$`),
	regexp.MustCompile(`^(?:unicast_src_ip )?[0-9a-f.:]+$`),
	regexp.MustCompile(`^[0-9a-f.:]+/[0-9]{1,3} dev ` + link + `(?: no_track)?$`),
	regexp.MustCompile(`^` + link + ` weight -253$`),
}

const link = `[a-zA-Z0-9][a-zA-Z0-9_.-]{0,14}`

func keepalived(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }) {
		return fmt.Errorf("it has characters that are no plain text")
	}
	return lines(text, longest, func(words []string) error {
		line := strings.Join(words, " ")
		if words[0] == "include" || !slices.ContainsFunc(keepalivedLines, func(form *regexp.Regexp) bool { return form.MatchString(line) }) {
			return fmt.Errorf("it has %q", line)
		}
		return nil
	})
}

func drain(text string) error {
	if text != "0\n" && text != "1\n" {
		return fmt.Errorf("it is neither 0 nor 1")
	}
	return nil
}
