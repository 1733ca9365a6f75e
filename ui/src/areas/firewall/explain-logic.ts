import type { Explanation } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'

export type Stage = 'in' | 'prerouting' | 'routing' | 'input' | 'forward' | 'postrouting' | 'out'
type Fate = 'passed' | 'stopped' | 'unreached'
type Step = Explanation['steps'][number]

export interface Station {
  stage: Stage
  fate: Fate
  /** What happened there: rewritten addresses, or an interface. */
  detail: string
}

/** The decisive step: the last one with a verdict. */
export function decidingStep(steps: readonly Step[]): Step | undefined {
  return steps.findLast(({ verdict }) => verdict)
}

/** The rules before the decisive one that were skipped, because they are for other zones. */
export function skippedRules<R extends { id: string }>(rules: readonly R[], steps: readonly Step[]): R[] {
  const asked = new Set(steps.map((step) => step.rule_id))
  if (!rules.some(({ id }) => asked.has(id))) return []
  const end = rules.findIndex(({ id }) => id === decidingStep(steps)?.rule_id)
  return rules.slice(0, end < 0 ? rules.length : end).filter(({ id }) => !asked.has(id))
}

/** A packet's path through the gateway, and where it ended. */
export function stationsOf(answer: Explanation): Station[] {
  const { path, verdict, nat, steps } = answer
  const rewritten = (...kinds: string[]) =>
    nat
      .filter(({ kind }) => kinds.includes(kind))
      .map(({ from, to }) => `${from} → ${to}`)
      .join(', ')
  const link = (name: string, zone: string) => [name, zone].filter(Boolean).join(' · ')
  const all: Omit<Station, 'fate'>[] = [
    { stage: 'in', detail: link(answer.in_interface, answer.in_zone) },
    { stage: 'prerouting', detail: rewritten('dnat') },
    { stage: 'routing', detail: '' },
    ...(path === 'unroutable' ? [] : [{ stage: path, detail: '' }]),
    ...(path === 'forward' ? [{ stage: 'postrouting' as const, detail: rewritten('snat', 'masquerade') }] : []),
    { stage: 'out', detail: path === 'forward' ? link(answer.out_interface, answer.out_zone) : '' },
  ]
  const decided = path === 'unroutable' ? 'routing' : decidingStep(steps)?.stage
  const known = all.findIndex(({ stage }) => stage === decided)
  const end = verdict === 'accept' && path !== 'unroutable' ? all.length : known < 0 ? all.length - 2 : known
  return all.map((one, index) => ({ ...one, fate: index < end ? 'passed' : index === end ? 'stopped' : 'unreached' }))
}

const numbers = ['source_port', 'destination_port', 'icmp_type'] as const
const ported = (protocol: string | undefined) => protocol === 'tcp' || protocol === 'udp'

/** The question in the address bar; null if it is incomplete. `in` is zone:… or interface:…. */
export function questionFrom(search: ListSearch) {
  if (search.mine) return { mine: true }
  if (!search.source || !search.destination) return null
  const [kind, name] = (search.in ?? '').split(/:(.*)/)
  const asked = numbers.filter((field) => search[field] && (field === 'icmp_type') !== ported(search.protocol))
  return {
    mine: false,
    ...(name && (kind === 'zone' ? { in_zone: name } : { in_interface: name })),
    source: search.source,
    destination: search.destination,
    protocol: search.protocol as 'tcp',
    ...Object.fromEntries(asked.map((field) => [field, Number(search[field])])),
    ...(search.out_interface && { out_interface: search.out_interface }),
  }
}
