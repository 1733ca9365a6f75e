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

/** Called before something is stored: returns what that would break, or null. */
export type Guard = (operations: Operation[]) => Promise<ReactNode>

/** A guard's objection. If the check fails, there is none: let the user try. */
export async function objectionTo(operations: Operation[], guard: Guard | undefined): Promise<ReactNode> {
  return guard ? guard(operations).catch(() => null) : null
}

/** What prevents a row from being deleted, such as its users. The gateway only checks. */
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
  /** Called when the deletion starts, and if it fails. */
  onBusy?: (busy: boolean) => void
}

/** Asks for a reason and a confirmation. Keeps its own state, because the dialog's content does not update. */
export function Why({ usual, onIntent }: { usual: Intent; onIntent: (intent: Intent) => void }) {
  const [intent, setIntent] = useState(usual)
  const say = (said: Intent) => {
    setIntent(said)
    onIntent(said)
  }
  return <IntentLine intent={intent} onIntent={say} confirmable={usual.within > 0} />
}

/** Asks, deletes and reports. The dialog shows what is in the way. */
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
    // Other changes in the draft may remove the obstacle; the gateway checks that.
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
