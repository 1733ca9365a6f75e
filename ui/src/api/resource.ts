import { type Answer, answer, http, type Intent, ifMatch, intentHeaders } from './client'
import type { operations, paths } from './schema'

// A page only needs a resource's path: the item type follows from the OpenAPI document.

type Payload<O> = O extends { responses: { 200: { content: { 'application/json': { data?: infer D } } } } }
  ? NonNullable<D>
  : never

export type Data<P extends keyof paths, M extends 'get' | 'put' | 'post' = 'get'> = M extends keyof paths[P]
  ? Payload<paths[P][M]>
  : never

type CollectionPath = { [P in keyof paths]: `${P}/{id}/history` extends keyof paths ? P : never }[keyof paths]
type OrderedPath = { [P in CollectionPath]: `${P}/{id}/move` extends keyof paths ? P : never }[CollectionPath]
type SingletonPath = {
  [P in keyof paths]: paths[P] extends { get: object; put: object } | { get: object; post: object } ? P : never
}[keyof paths]

export type Item<P extends CollectionPath> = `${P}/{id}` extends keyof paths ? Data<`${P}/{id}`> : never

/** The history of a row, newest first, and the row as it was at a given time. */
export interface Past<T> {
  entries: (id: string) => Promise<RowPast[]>
  at: (id: string, moment: string) => Promise<T>
}
export type RowPast = Data<'/firewall/rules/{id}/history'>[number]

type Body<O> = O extends { requestBody: { content: { 'application/json': infer B } } } ? B : never
/** The operation that creates a row of a kind or, if there is none, the one that updates it. */
type Change<K extends string> = `${K}.create` extends keyof operations
  ? operations[`${K}.create`]
  : `${K}.update` extends keyof operations
    ? operations[`${K}.update`]
    : never
/** The kinds of rows that the API accepts, as named in change sets and audit actions. */
export type Kind = {
  [O in keyof operations]: O extends `${infer K}.create` | `${infer K}.update`
    ? Body<operations[O]> extends never
      ? never
      : K
    : never
}[keyof operations]
/** The fields that the API accepts for a row of a kind, and those that it returns. */
export type FieldOf<K extends Kind> = keyof Body<Change<K>> & string
export type ShownOf<K extends Kind> = `${K}.get` extends keyof operations
  ? keyof Payload<operations[`${K}.get`]> & string
  : never

/** The calls behind one list and its forms. `kind` is the name in change sets and audit actions. */
export interface Resource<T> {
  kind: string
  list: () => Promise<T[]>
  read: (id: string) => Promise<Answer<T>>
  create: (body: object, intent?: Intent) => Promise<Answer<T>>
  /** `changed` names the fields that differ from the stored row, if known. */
  update: (
    id: string,
    body: object,
    etag: string | null,
    changed?: readonly string[],
    intent?: Intent,
  ) => Promise<Answer<T>>
  remove: (id: string, etag?: string | null, intent?: Intent) => Promise<Answer<{ id: string }>>
  past: Past<T>
}

/** A resource whose rows are ordered, and whose notes can be changed without an apply. */
export interface OrderedResource<T> extends Resource<T> {
  /** Moves a row right behind another, or to the front. */
  move: (id: string, after: string | null, intent?: Intent) => Promise<Answer<T>>
}

export interface Singleton<T> {
  kind: string
  read: () => Promise<Answer<T>>
  update: (body: object, etag: string | null, changed?: readonly string[], intent?: Intent) => Promise<Answer<T>>
  /** Only for settings with a history. */
  past?: Past<T>
}

const notes: readonly string[] = ['note', 'labels']

type ChangeSet = paths['/change-sets']['post']['requestBody']['content']['application/json']
export type Operation = ChangeSet['operations'][number]

/** Stores several rows at once: all or none. */
export const changeSet = (operations: Operation[], { reason, within }: Intent = { reason: '', within: 0 }) =>
  answer(http.POST('/change-sets', { body: { operations, preview: false, reason, confirm_within: within } }))

// biome-ignore lint/suspicious/noExplicitAny: the path is a value here; its types were checked by the caller's generics.
const call = (method: string, path: string, init?: object): any => (http as any).request(method, path, init)

/** `parent` is the parent row's id in a path such as /domains/{parent}/headers. */
export function resource<P extends CollectionPath>(kind: string, path: P, parent?: string): Resource<Item<P>> {
  const one = `${path}/{id}`
  const params = (id?: string) => ({ params: { path: { parent, id } } })
  return {
    kind,
    list: async () => (await answer<Item<P>[]>(call('get', path, params()))).value,
    read: (id) => answer(call('get', one, params(id))),
    create: (body, intent) => answer(call('post', path, { ...params(), body, headers: intentHeaders(intent) })),
    update: (id, body, etag, _, intent) =>
      answer(call('put', one, { ...params(id), body, headers: { ...ifMatch(etag), ...intentHeaders(intent) } })),
    remove: (id, etag, intent) =>
      answer(call('delete', one, { ...params(id), headers: { ...ifMatch(etag), ...intentHeaders(intent) } })),
    past: {
      entries: async (id) => (await answer<RowPast[]>(call('get', `${one}/history`, params(id)))).value,
      at: async (id, at) =>
        (await answer<Item<P>>(call('get', one, { params: { path: { parent, id }, query: { at } } }))).value,
    },
  }
}

/** Additional fields of another resource's rows, under the same id. They are neither created nor deleted. */
export type Extension<T> = Pick<Resource<T>, 'kind' | 'list' | 'read' | 'update' | 'past'>

export function extension<P extends CollectionPath>(kind: string, path: P): Extension<Item<P>> {
  const { list, read, update, past } = resource(kind, path)
  return { kind, list, read, update, past }
}

export function orderedResource<P extends OrderedPath>(kind: string, path: P): OrderedResource<Item<P>> {
  const plain = resource(kind, path)
  return {
    ...plain,
    update: (id, body, etag, changed, intent) => {
      if (!changed?.length || !changed.every((name) => notes.includes(name)))
        return plain.update(id, body, etag, changed, intent)
      const noted = Object.fromEntries(Object.entries(body).filter(([name]) => changed.includes(name)))
      // Nothing is applied, so nothing needs confirmation.
      const headers = { ...ifMatch(etag), ...intentHeaders({ reason: intent?.reason }) }
      return answer(call('patch', `${path}/{id}`, { params: { path: { id } }, body: noted, headers }))
    },
    move: (id, after, intent) =>
      answer(
        call('post', `${path}/{id}/move`, {
          params: { path: { id } },
          body: { after },
          headers: intentHeaders(intent),
        }),
      ),
  }
}

export function singleton<P extends SingletonPath>(kind: string, path: P, method: 'put' | 'post'): Singleton<Data<P>> {
  return {
    kind,
    read: () => answer(call('get', path)),
    update: (body, etag, _, intent) =>
      answer(call(method, path, { body, headers: { ...ifMatch(etag), ...intentHeaders(intent) } })),
  }
}

type SettingsPath = { [P in SingletonPath]: `${P}/history` extends keyof paths ? P : never }[SingletonPath]

/** Settings with a history. */
export function settings<P extends SettingsPath>(kind: string, path: P): Singleton<Data<P>> {
  return {
    ...singleton(kind, path, 'put'),
    past: {
      entries: async () => (await answer<RowPast[]>(call('get', `${path}/history`))).value,
      at: async (_, at) => (await answer<Data<P>>(call('get', path, { params: { query: { at } } }))).value,
    },
  }
}
