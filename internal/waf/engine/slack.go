package engine

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/types/variables"
)

// slack finds rules whose list of exceptions has spare capacity, and returns directives that use it up.
//
// When a transaction excludes a target from a rule, Coraza 3.8.1 appends it to a copy of the rule's own list of exceptions. If that list
// has spare capacity, the copy shares its memory with the rule, and so with every concurrent transaction: one request then sees the
// exclusion of another. A full list is copied before it grows. It is filled with a pattern that no key matches.
func slack(waf coraza.WAF) (directives string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine is not built as expected: %v", p)
		}
	}()
	rules := reflect.ValueOf(waf).FieldByName("waf").Elem().FieldByName("Rules").FieldByName("rules")
	if rules.Len() == 0 {
		return "", errors.New("the engine has no rules")
	}
	var b strings.Builder
	for i := range rules.Len() {
		head := rules.Index(i)
		id := head.FieldByName("ID_").Int()
		for rule, link := head, 0; ; link++ {
			targets := rule.FieldByName("variables")
			for j := range targets.Len() {
				target := targets.Index(j)
				exceptions := target.FieldByName("Exceptions")
				room := exceptions.Cap() - exceptions.Len()
				if room == 0 {
					continue
				}
				if link > 0 || id == 0 {
					return "", fmt.Errorf("rule %d: link %d of its chain shares its exceptions", id, link)
				}
				name := variables.RuleVariable(target.FieldByName("Variable").Uint()).Name()
				fill := "!" + name + ":/$./"
				fmt.Fprintf(&b, "SecRuleUpdateTargetById %d \"%s\"\n", id, strings.TrimSuffix(strings.Repeat(fill+"|", room), "|"))
			}
			next := rule.FieldByName("Chain")
			if next.IsNil() {
				break
			}
			rule = next.Elem()
		}
	}
	return b.String(), nil
}
