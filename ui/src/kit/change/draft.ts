import { type QueryClient, queryOptions, useQuery } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'
import type { Operation } from '../../api/resource'
import { useCanEdit } from '../../api/session'
import type { Draft, DraftOperation } from '../../api/types'

/**
 * The changes that the user has collected but not applied. Every form and list uses them; audit events refresh them.
 */
export const draftQuery = queryOptions({
  queryKey: ['draft'],
  queryFn: () => unwrap(http.GET('/draft')),
  staleTime: 60_000,
})

const none: DraftOperation[] = []

/** The operations of the draft. Users who cannot edit have none. */
export function useDrafted(): DraftOperation[] {
  const canEdit = useCanEdit()
  return useQuery({ ...draftQuery, enabled: canEdit }).data?.operations ?? none
}

/** What the draft does to one row. */
export const useDraftedRow = (kind: string, id: string) =>
  useDrafted().find((one) => one.kind === kind && one.id === id)

const keep = (queries: QueryClient) => (draft: Draft) => queries.setQueryData(draftQuery.queryKey, draft)

export const addToDraft = (queries: QueryClient, operations: Operation[]) =>
  unwrap(http.POST('/draft/operations', { body: { operations } })).then(keep(queries))

/** Removes a row's changes from the draft. */
export const removeFromDraft = (queries: QueryClient, { kind, id }: { kind: string; id: string }) =>
  unwrap(http.DELETE('/draft/operations/{kind}/{id}', { params: { path: { kind, id } } })).then(keep(queries))

export const discardDraft = (queries: QueryClient) => unwrap(http.DELETE('/draft')).then(keep(queries))

/** The stored rows of a kind, and those that the draft creates. */
export function withNew<T>(rows: T[], kind: string, drafted: readonly DraftOperation[]): T[] {
  const made = drafted.filter((one) => one.kind === kind && one.verb === 'create').map(({ after }) => after as T)
  return made.length > 0 ? [...rows, ...made] : rows
}
