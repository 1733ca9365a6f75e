import type { RoutingRule } from '../../api/types'

type Ruled = Pick<RoutingRule, 'id' | 'domain_id' | 'path_prefix' | 'active'>

/**
 * The rules that can never match, each with the rule that shadows it: an earlier one of the same domain whose prefix is
 * a prefix of theirs. Expects the rules in order.
 */
export function shadowed<T extends Ruled>(rules: readonly T[]): Map<string, T> {
  const found = new Map<string, T>()
  const before = new Map<string, T[]>()
  for (const rule of rules) {
    if (!rule.active) continue
    const earlier = before.get(rule.domain_id) ?? []
    const by = earlier.find(({ path_prefix }) => rule.path_prefix.startsWith(path_prefix))
    if (by) found.set(rule.id, by)
    before.set(rule.domain_id, [...earlier, rule])
  }
  return found
}
