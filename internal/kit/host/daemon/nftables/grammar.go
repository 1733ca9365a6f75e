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

// admit takes the transaction that puts the gateway's table in the place of its former self: sets, chains and rules, each of which
// ends where its line does. So nothing is about another table, and nothing reads a file.
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

// admitPart takes one note, set or chain of it.
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

// plain refuses control characters, and lines that are not the ones that they seem to be.
func plain(text string) error {
	return grammar.Lines(text, grammar.AnyLength, func([]string) error { return nil })
}

func checkListing(l *nft.Listing) error {
	for _, s := range l.Sets {
		if !names.MatchString(s.Name) || s.Type != "ipv4_addr" && s.Type != "ipv6_addr" || !elements.MatchString(s.Elements) {
			return fmt.Errorf("it has a set %q", s.Name)
		}
	}
	for _, c := range l.Chains {
		if !names.MatchString(c.Name) || c.Hook != "" && !hooks.MatchString(c.Hook) {
			return fmt.Errorf("it has a chain %q, %q", c.Name, c.Hook)
		}
		for _, rule := range c.Rules() {
			if err := checkRule(rule); err != nil {
				return fmt.Errorf("%w: %q", err, rule)
			}
		}
	}
	return nil
}

// statements are words that begin something else than a rule within a chain. Each has one of two words in it, which are faster to look for.
var statements = regexp.MustCompile(`\b(?:include|define|redefine|undefine)\b`)

// checkRule takes what is one rule: its quotes and braces end in its line, and nothing comes behind it.
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
			return errors.New("it is more than a rule")
		}
		if open < 0 {
			return errors.New("it leaves its chain")
		}
		bare.WriteRune(r)
	}
	if open != 0 || quoted {
		return errors.New("it goes on in the next line")
	}
	if said := bare.String(); (strings.Contains(said, "include") || strings.Contains(said, "define")) && statements.MatchString(said) {
		return errors.New("it is no rule")
	}
	return nil
}
