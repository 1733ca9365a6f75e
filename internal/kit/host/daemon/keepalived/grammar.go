package keepalived

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon/grammar"
)

// lines are the lines that the gateway writes. keepalived runs programs as root on many events and can include files anywhere; only
// one health check is accepted.
var lines = []*regexp.Regexp{
	grammar.Exactly("router_id gateway", "enable_script_security", "script_user "+ProbeUser+" "+ProbeGroup, "vrrp_notify_fifo "+States,
		"script "+Probe, "file "+drainPath, "state BACKUP", "proxy", "drain"),
	regexp.MustCompile(`^(?:interval|timeout|fall|rise|weight|priority|virtual_router_id) -?[0-9]{1,3}$`),
	regexp.MustCompile(`^interface ` + grammar.Link + `$`),
	regexp.MustCompile(`^(?:unicast_src_ip )?[0-9a-f.:]+$`),
	regexp.MustCompile(`^[0-9a-f.:]+/[0-9]{1,3} dev ` + grammar.Link + `(?: no_track)?$`),
	regexp.MustCompile(`^` + grammar.Link + ` weight -253$`),
}

// blocks maps the start of each block to the block around it. If a block is not closed, or is in the wrong place, keepalived
// crashes or loops forever, even while it only checks the file.
var blocks = map[string]string{
	"global_defs {": "", "vrrp_script proxy {": "", "track_file drain {": "", instance: "",
	"unicast_peer {": instance, "track_script {": instance, "track_file {": instance, "track_interface {": instance,
	"virtual_ipaddress {": instance, "virtual_ipaddress_excluded {": instance,
}

const instance = "vrrp_instance gateway {"

func admit(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }) {
		return errors.New("unexpected character outside printable ASCII")
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
			return fmt.Errorf("unexpected %q", line)
		}
		return nil
	})
	if err == nil && len(open) > 1 {
		err = fmt.Errorf("%q is not closed", open[len(open)-1])
	}
	return err
}

func admitDrain(text string) error {
	if text != "0\n" && text != "1\n" {
		return errors.New("must be 0 or 1")
	}
	return nil
}
