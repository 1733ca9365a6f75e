import type { QueryClient } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { Operation, Resource } from '../api/resource'
import i18n from '../i18n/i18n'
import { confirm } from './confirm'
import { renew } from './renew'
import { toastApplied } from './toast'

/** Asked before something is stored: what it would break, or null. */
export type Guard = (operations: Operation[]) => Promise<ReactNode>

/** What a guard objects to. What cannot be foreseen does not keep anybody from trying. */
export async function objectionTo(operations: Operation[], guard: Guard | undefined): Promise<ReactNode> {
  return guard ? guard(operations).catch(() => null) : null
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

/** Asks, deletes, says so. A refusal is shown in the question, with what stands in the way. */
export async function askToRemove<T>(removal: Removal<T>): Promise<boolean> {
  const { resource, id, etag, name, text, guard, queries, onBusy } = removal
  const objection = await objectionTo([{ kind: resource.kind, verb: 'delete', id }], guard)
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
