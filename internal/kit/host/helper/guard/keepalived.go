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
	exactly("router_id gateway", "enable_script_security", "script_user "+host.VRRPProbeUser+" "+host.VRRPProbeGroup, "vrrp_notify_fifo "+host.VRRPStates,
		"script "+host.VRRPProbe, "file "+host.VRRPDrain.Path(), "state BACKUP", "proxy", "drain"),
	regexp.MustCompile(`^(?:interval|timeout|fall|rise|weight|priority|virtual_router_id) -?[0-9]{1,3}$`),
	regexp.MustCompile(`^interface ` + link + `$`),
	regexp.MustCompile(`^(?:unicast_src_ip )?[0-9a-f.:]+$`),
	regexp.MustCompile(`^[0-9a-f.:]+/[0-9]{1,3} dev ` + link + `(?: no_track)?$`),
	regexp.MustCompile(`^` + link + ` weight -253$`),
}

// keepalivedBlocks are how blocks begin, and which block each is in. Where one does not end, or is in a block that takes none, keepalived
// crashes or runs for ever, its check as well.
var keepalivedBlocks = map[string]string{
	"global_defs {": "", "vrrp_script proxy {": "", "track_file drain {": "", keepalivedInstance: "",
	"unicast_peer {": keepalivedInstance, "track_script {": keepalivedInstance, "track_file {": keepalivedInstance, "track_interface {": keepalivedInstance,
	"virtual_ipaddress {": keepalivedInstance, "virtual_ipaddress_excluded {": keepalivedInstance,
}

const keepalivedInstance = "vrrp_instance gateway {"

const link = `[a-zA-Z0-9][a-zA-Z0-9_.-]{0,14}`

func keepalived(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }) {
		return fmt.Errorf("it has characters that are no plain text")
	}
	open := []string{""}
	err := lines(text, longest, func(words []string) error {
		line, last := strings.Join(words, " "), len(open)-1
		within, begins := keepalivedBlocks[line]
		switch {
		case begins && within == open[last]:
			open = append(open, line)
		case line == "}" && last > 0:
			open = open[:last]
		case words[0] == "include" || !slices.ContainsFunc(keepalivedLines, func(form *regexp.Regexp) bool { return form.MatchString(line) }):
			return fmt.Errorf("it has %q", line)
		}
		return nil
	})
	if err == nil && len(open) > 1 {
		err = fmt.Errorf("%q does not end", open[len(open)-1])
	}
	return err
}

func drain(text string) error {
	if text != "0\n" && text != "1\n" {
		return fmt.Errorf("it is neither 0 nor 1")
	}
	return nil
}
