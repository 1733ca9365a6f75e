package keepalived

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon/grammar"
)

// lines are the lines that the gateway writes. keepalived runs programs as root whenever something happens, and reads other
// files at any place: of all that, one probe is admitted.
var lines = []*regexp.Regexp{
	grammar.Exactly("router_id gateway", "enable_script_security", "script_user "+ProbeUser+" "+ProbeGroup, "vrrp_notify_fifo "+States,
		"script "+Probe, "file "+drainPath, "state BACKUP", "proxy", "drain"),
	regexp.MustCompile(`^(?:interval|timeout|fall|rise|weight|priority|virtual_router_id) -?[0-9]{1,3}$`),
	regexp.MustCompile(`^interface ` + grammar.Link + `$`),
	regexp.MustCompile(`^(?:unicast_src_ip )?[0-9a-f.:]+$`),
	regexp.MustCompile(`^[0-9a-f.:]+/[0-9]{1,3} dev ` + grammar.Link + `(?: no_track)?$`),
	regexp.MustCompile(`^` + grammar.Link + ` weight -253$`),
}

// blocks are how blocks begin, and which block each is in. Where one does not end, or is in a block that takes none, keepalived
// crashes or runs for ever, its check as well.
var blocks = map[string]string{
	"global_defs {": "", "vrrp_script proxy {": "", "track_file drain {": "", instance: "",
	"unicast_peer {": instance, "track_script {": instance, "track_file {": instance, "track_interface {": instance,
	"virtual_ipaddress {": instance, "virtual_ipaddress_excluded {": instance,
}

const instance = "vrrp_instance gateway {"

func admit(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }) {
		return fmt.Errorf("it has characters that are no plain text")
	}
	open := []string{""}
	err := grammar.Lines(text, grammar.Longest, func(words []string) error {
		line, last := strings.Join(words, " "), len(open)-1
		within, begins := blocks[line]
		switch {
		case begins && within == open[last]:
			open = append(open, line)
		case line == "}" && last > 0:
			open = open[:last]
		case words[0] == "include" || !slices.ContainsFunc(lines, func(form *regexp.Regexp) bool { return form.MatchString(line) }):
			return fmt.Errorf("it has %q", line)
		}
		return nil
	})
	if err == nil && len(open) > 1 {
		err = fmt.Errorf("%q does not end", open[len(open)-1])
	}
	return err
}

func admitDrain(text string) error {
	if text != "0\n" && text != "1\n" {
		return fmt.Errorf("it is neither 0 nor 1")
	}
	return nil
}
