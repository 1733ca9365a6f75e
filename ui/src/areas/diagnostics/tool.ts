import type { ToolResult } from '../../api/types'
import type { ListSearch } from '../../kit/list/list-logic'

export const tools = ['ping', 'traceroute', 'dig', 'curl', 'tcp'] as const
export type Tool = (typeof tools)[number]

export const recordTypes = ['A', 'AAAA', 'CNAME', 'MX', 'TXT', 'NS', 'SOA', 'PTR', 'SRV', 'CAA'] as const
export type RecordType = (typeof recordTypes)[number]

/** The values of the form. */
export interface ToolForm {
  tool: Tool
  target: string
  type: RecordType
  server: string
  port: number | ''
}

const isTool = (text: string | undefined): text is Tool => tools.some((tool) => tool === text)
const isType = (text: string | undefined): text is RecordType => recordTypes.some((type) => type === text)

/** The initial form. A link can fill it in. */
export function formFrom(search: ListSearch): ToolForm {
  return {
    tool: isTool(search.tool) ? search.tool : 'ping',
    target: search.target ?? '',
    type: isType(search.type) ? search.type : 'A',
    server: search.server ?? '',
    port: Number(search.port) || '',
  }
}

/** The request for a form: only the fields that the tool takes. */
export function bodyOf({ tool, target, type, server, port }: ToolForm) {
  switch (tool) {
    case 'dig':
      return { target, type, ...(server && { server }) }
    case 'tcp':
      return { target, ...(port !== '' && { port }) }
    default:
      return { target }
  }
}

/** The command to show above its output, in familiar syntax. */
export function commandOf({ tool, target, type, server, port }: ToolForm): string {
  switch (tool) {
    case 'dig':
      return ['dig', target, type, server && `@${server}`].filter(Boolean).join(' ')
    case 'tcp':
      return ['tcp', target, port].filter((word) => word !== '').join(' ')
    default:
      return `${tool} ${target}`
  }
}

/** One run of a tool. */
export interface Entry {
  id: number
  form: ToolForm
  at: number
  output: string
  /** Missing while it runs. */
  end?: { kind: 'result'; result: ToolResult } | { kind: 'stopped' } | { kind: 'failed'; message: string }
}

export type Standing = 'running' | 'ok' | 'failed' | 'timedOut' | 'truncated' | 'stopped' | 'refused'

export function standingOf({ end }: Pick<Entry, 'end'>): Standing {
  if (!end) return 'running'
  if (end.kind === 'stopped') return 'stopped'
  if (end.kind === 'failed') return 'refused'
  if (end.result.timed_out) return 'timedOut'
  if (end.result.truncated) return 'truncated'
  return end.result.exit_status === 0 ? 'ok' : 'failed'
}

/** How many runs to keep. */
const remembered = 20

/** The runs since the console was opened, newest first. They survive navigation, but not closing the tab. */
class History {
  private entries: readonly Entry[] = []
  private readonly listeners = new Set<() => void>()
  private last = 0

  readonly list = () => this.entries

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  begin(form: ToolForm, at = Date.now()): number {
    const id = ++this.last
    this.set([{ id, form, at, output: '' }, ...this.entries].slice(0, remembered))
    return id
  }

  change(id: number, change: (entry: Entry) => Partial<Entry>) {
    this.set(this.entries.map((entry) => (entry.id === id ? { ...entry, ...change(entry) } : entry)))
  }

  clear() {
    this.set(this.entries.filter(({ end }) => !end))
  }

  private set(entries: readonly Entry[]) {
    this.entries = entries
    for (const listener of this.listeners) listener()
  }
}

export const history = new History()
