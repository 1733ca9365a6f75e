import type { PathAnswer, PathStep } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'

/** The values of the form. */
export interface PathForm {
  /** gateway, zone:NAME or address */
  from: string
  source: string
  destination: string
  protocol: 'tcp' | 'udp' | 'icmp'
  port: number | ''
}

const protocols = ['tcp', 'udp', 'icmp'] as const

/** The initial form. A link can fill it in. */
export function pathFormFrom(search: ListSearch): PathForm {
  return {
    from: search.from ?? 'gateway',
    source: search.source ?? '',
    destination: search.destination ?? '',
    protocol: protocols.find((one) => one === search.protocol) ?? 'tcp',
    port: search.port === undefined ? 443 : Number(search.port) || '',
  }
}

/** The request for a form. */
export function questionOf({ from, source, destination, protocol, port }: PathForm) {
  const zone = from.startsWith('zone:') ? from.slice('zone:'.length) : undefined
  return {
    destination,
    protocol,
    ...(zone && { source_zone: zone }),
    ...(from !== 'gateway' && source && { source }),
    ...(protocol !== 'icmp' && port !== '' && { port }),
  }
}

export type Fate = PathStep['status'] | 'unreached' | 'waiting'

export interface Station {
  kind: PathStep['kind']
  fate: Fate
  step?: PathStep
}

const usual: PathStep['kind'][] = ['route', 'filter', 'connect']

/** The chain: the steps so far, and those that are pending or were not reached. */
export function stationsOf(steps: readonly PathStep[], running: boolean): Station[] {
  const taken = steps.map((step): Station => ({ kind: step.kind, fate: step.status, step }))
  const stopped = steps.some(({ status }) => status === 'failed')
  if (!running && !stopped) return taken
  const last = Math.max(-1, ...steps.map(({ kind }) => usual.indexOf(kind)))
  const rest = usual.slice(last + 1).map((kind): Station => ({ kind, fate: stopped ? 'unreached' : 'waiting' }))
  return [...taken, ...rest]
}

/** The colour of an answer. */
export function toneOf({ reaches, steps }: Pick<PathAnswer, 'reaches' | 'steps'>) {
  if (!reaches) return 'bad'
  return steps.some(({ status }) => status === 'warning') ? 'warn' : 'live'
}
