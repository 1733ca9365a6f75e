package nftables

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host/daemon/grammar"
)

var (
	names    = regexp.MustCompile(`^[a-z][A-Za-z0-9_/-]*$`)
	hooks    = regexp.MustCompile(`^type (?:filter|nat|route) hook (?:prerouting|input|forward|output|postrouting) priority [a-z]+; policy (?:accept|drop);$`)
	elements = regexp.MustCompile(`^[0-9a-f.:/, -]*$`)
)

// admit accepts the transaction that replaces the gateway's table: sets, chains and rules, each of which ends on its own line. So
// it cannot touch another table or read a file.
func admit(text string) error {
	if err := plain(text); err != nil {
		return err
	}
	table, err := nft.Read(Name, text)
	if err != nil {
		return err
	}
	return checkListing(table)
}

// admitPart accepts a single note, set or chain.
func admitPart(part string) error {
	if err := plain(part); err != nil {
		return err
	}
	l, err := nft.ReadPart(part)
	if err != nil {
		return err
	}
	return checkListing(l)
}

// plain refuses control characters and line continuations.
func plain(text string) error {
	return grammar.Lines(text, grammar.AnyLength, func([]string) error { return nil })
}

func checkListing(l *nft.Listing) error {
	for _, s := range l.Sets {
		if !names.MatchString(s.Name) || s.Type != "ipv4_addr" && s.Type != "ipv6_addr" || !elements.MatchString(s.Elements) {
			return fmt.Errorf("unexpected set %q", s.Name)
		}
	}
	for _, c := range l.Chains {
		if !names.MatchString(c.Name) || c.Hook != "" && !hooks.MatchString(c.Hook) {
			return fmt.Errorf("unexpected chain %q, %q", c.Name, c.Hook)
		}
		for _, rule := range c.Rules() {
			if err := checkRule(rule); err != nil {
				return fmt.Errorf("%w: %q", err, rule)
			}
		}
	}
	return nil
}

// statements begin something other than a rule within a chain. All of them contain include or define, which are faster to search
// for.
var statements = regexp.MustCompile(`\b(?:include|define|redefine|undefine)\b`)

// checkRule accepts one rule: its quotes and braces are closed on its line, and nothing follows it.
func checkRule(rule string) error {
	var bare strings.Builder
	open, quoted := 0, false
	for _, r := range rule {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
			continue
		case r == '{':
			open++
		case r == '}':
			open--
		case r == ';', r == '#', r == '$', r == '\\', r == '\'', r == '*':
			return errors.New("more than one rule")
		}
		if open < 0 {
			return errors.New("the rule leaves its chain")
		}
		bare.WriteRune(r)
	}
	if open != 0 || quoted {
		return errors.New("the rule continues on the next line")
	}
	if text := bare.String(); (strings.Contains(text, "include") || strings.Contains(text, "define")) && statements.MatchString(text) {
		return errors.New("not a rule")
	}
	return nil
}
