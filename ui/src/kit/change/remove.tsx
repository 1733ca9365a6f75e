import type { QueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { http, type Intent, unwrap } from '../../api/client'
import { type Fault, toFault } from '../../api/fault'
import type { Operation, Resource } from '../../api/resource'
import i18n from '../../i18n/i18n'
import { toast, toastApplied } from '../state/toast'
import { confirm } from './confirm'
import { addToDraft } from './draft'
import { IntentLine } from './IntentLine'
import { usualIntent } from './intent'
import { kinds } from './kinds'
import { renew } from './renew'

/** Asked before something is stored: what it would break, or null. */
export type Guard = (operations: Operation[]) => Promise<ReactNode>

/** What a guard objects to. What cannot be foreseen does not keep anyone from trying. */
export async function objectionTo(operations: Operation[], guard: Guard | undefined): Promise<ReactNode> {
  return guard ? guard(operations).catch(() => null) : null
}

/** What keeps a row from being deleted, such as what uses it: the gateway says so without deleting anything. */
export async function obstacleTo(operations: Operation[]): Promise<Fault | null> {
  try {
    await unwrap(http.POST('/change-sets', { body: { operations, preview: true, reason: '' } }))
    return null
  } catch (cause) {
    const fault = toFault(cause)
    return fault.code === 'conflict' ? fault : null
  }
}

interface Removal<T> {
  resource: Pick<Resource<T>, 'kind' | 'remove'>
  id: string
  etag?: string | null
  name: string
  text: string
  guard?: Guard
  queries: QueryClient
  /** Told when the deletion begins, and when it failed. */
  onBusy?: (busy: boolean) => void
}

/** Why, and whether it must be confirmed: what is said changes while the question is open. */
export function Why({ usual, onIntent }: { usual: Intent; onIntent: (intent: Intent) => void }) {
  const [intent, setIntent] = useState(usual)
  const say = (said: Intent) => {
    setIntent(said)
    onIntent(said)
  }
  return <IntentLine intent={intent} onIntent={say} confirmable={usual.within > 0} />
}

/** Asks, deletes, says so. What is in the way is shown in the question. */
export async function askToRemove<T>(removal: Removal<T>): Promise<boolean> {
  const { resource, id, etag, name, text, guard, queries, onBusy } = removal
  const operations: Operation[] = [{ kind: resource.kind, verb: 'delete', id }]
  const objection = await objectionTo(operations, guard)
  const intent = usualIntent(resource.kind)
  return confirm({
    title: i18n.t('delete.title', { name }),
    text: (
      <>
        {objection}
        <p>{text}</p>
        <Why usual={{ ...intent }} onIntent={(said) => Object.assign(intent, said)} />
      </>
    ),
    verb: i18n.t(objection ? 'delete.anyway' : 'delete.verb'),
    danger: true,
    obstacle: () => obstacleTo(operations),
    // The draft may hold what takes the obstacle away: the gateway says whether it does.
    other: kinds.includes(resource.kind)
      ? {
          verb: i18n.t('draft.add'),
          act: async () => {
            await addToDraft(queries, operations)
            toast('live', i18n.t('draft.added'), name)
          },
        }
      : undefined,
    act: async () => {
      onBusy?.(true)
      try {
        const { applied } = await resource.remove(id, etag, intent)
        toastApplied(i18n.t('delete.done', { name }), applied)
        await renew(queries, resource.kind)
      } catch (cause) {
        onBusy?.(false)
        throw cause
      }
    },
  })
}
