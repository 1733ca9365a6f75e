import type { QueryClient } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { http, unwrap } from '../api/client'
import { type Fault, toFault } from '../api/fault'
import type { Operation, Resource } from '../api/resource'
import i18n from '../i18n/i18n'
import { confirm } from './confirm'
import { renew } from './renew'
import { toastApplied } from './toast'

/** Asked before something is stored: what it would break, or null. */
export type Guard = (operations: Operation[]) => Promise<ReactNode>

/** What a guard objects to. What cannot be foreseen does not keep anyone from trying. */
export async function objectionTo(operations: Operation[], guard: Guard | undefined): Promise<ReactNode> {
  return guard ? guard(operations).catch(() => null) : null
}

/** What keeps a row from being deleted, such as what uses it: the gateway says so without deleting anything. */
async function obstacleTo(operations: Operation[]): Promise<Fault | null> {
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

/** Asks, deletes, says so. What is in the way is shown in the question. */
export async function askToRemove<T>(removal: Removal<T>): Promise<boolean> {
  const { resource, id, etag, name, text, guard, queries, onBusy } = removal
  const operations: Operation[] = [{ kind: resource.kind, verb: 'delete', id }]
  const objection = await objectionTo(operations, guard)
  return confirm({
    title: i18n.t('delete.title', { name }),
    text: (
      <>
        {objection}
        <p>{text}</p>
      </>
    ),
    verb: i18n.t(objection ? 'delete.anyway' : 'delete.verb'),
    danger: true,
    obstacle: () => obstacleTo(operations),
    act: async () => {
      onBusy?.(true)
      try {
        const { applied } = await resource.remove(id, etag)
        toastApplied(i18n.t('delete.done', { name }), applied)
        await renew(queries, resource.kind)
      } catch (cause) {
        onBusy?.(false)
        throw cause
      }
    },
  })
}
