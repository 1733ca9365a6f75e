import { type Answer, answer, http, ifMatch } from './client'
import type { paths } from './schema'

// What a page needs to know about a resource is its path: the item type follows from the OpenAPI document.

type Payload<O> = O extends { responses: { 200: { content: { 'application/json': { data?: infer D } } } } }
  ? NonNullable<D>
  : never

export type Data<P extends keyof paths, M extends 'get' | 'put' | 'post' = 'get'> = M extends keyof paths[P]
  ? Payload<paths[P][M]>
  : never

type CollectionPath = { [P in keyof paths]: `${P}/{id}` extends keyof paths ? P : never }[keyof paths]
type OrderedPath = { [P in CollectionPath]: `${P}/{id}/move` extends keyof paths ? P : never }[CollectionPath]
type SingletonPath = {
  [P in keyof paths]: paths[P] extends { get: object; put: object } | { get: object; post: object } ? P : never
}[keyof paths]

export type Item<P extends CollectionPath> = `${P}/{id}` extends keyof paths ? Data<`${P}/{id}`> : never

/** The calls behind one list and its forms. `kind` is the name in change sets and audit actions. */
export interface Resource<T> {
  kind: string
  list: () => Promise<T[]>
  read: (id: string) => Promise<Answer<T>>
  create: (body: object) => Promise<Answer<T>>
  /** `changed` names the fields that differ from what is stored, where that is known. */
  update: (id: string, body: object, etag: string | null, changed?: readonly string[]) => Promise<Answer<T>>
  remove: (id: string, etag?: string | null) => Promise<Answer<{ id: string }>>
}

/** A resource whose rows have an order, and whose notes can be changed without an apply. */
export interface OrderedResource<T> extends Resource<T> {
  /** Puts one row right behind another, or before all of them. */
  move: (id: string, after: string | null) => Promise<Answer<T>>
}

export interface Singleton<T> {
  kind: string
  read: () => Promise<Answer<T>>
  update: (body: object, etag: string | null) => Promise<Answer<T>>
}

const notes: readonly string[] = ['note', 'labels']

type ChangeSet = paths['/change-sets']['post']['requestBody']['content']['application/json']
export type Operation = ChangeSet['operations'][number]

/** Stores several rows at once: all of them, or none. */
export const changeSet = (operations: Operation[], reason = '') =>
  answer(http.POST('/change-sets', { body: { operations, preview: false, reason } }))

// biome-ignore lint/suspicious/noExplicitAny: the path is a value here; its types were checked by the caller's generics.
const call = (method: string, path: string, init?: object): any => (http as any).request(method, path, init)

/** `parent` is the row that those of a path such as /domains/{parent}/headers belong to. */
export function resource<P extends CollectionPath>(kind: string, path: P, parent?: string): Resource<Item<P>> {
  const one = `${path}/{id}`
  const params = (id?: string) => ({ params: { path: { parent, id } } })
  return {
    kind,
    list: async () => (await answer<Item<P>[]>(call('get', path, params()))).value,
    read: (id) => answer(call('get', one, params(id))),
    create: (body) => answer(call('post', path, { ...params(), body })),
    update: (id, body, etag) => answer(call('put', one, { ...params(id), body, headers: ifMatch(etag) })),
    remove: (id, etag) => answer(call('delete', one, { ...params(id), headers: ifMatch(etag) })),
  }
}

/** What rows of another resource have besides, under the same id: it is neither made nor deleted. */
export type Extension<T> = Pick<Resource<T>, 'kind' | 'list' | 'read' | 'update'>

export function extension<P extends CollectionPath>(kind: string, path: P): Extension<Item<P>> {
  const { list, read, update } = resource(kind, path)
  return { kind, list, read, update }
}

export function orderedResource<P extends OrderedPath>(kind: string, path: P): OrderedResource<Item<P>> {
  const plain = resource(kind, path)
  return {
    ...plain,
    update: (id, body, etag, changed) => {
      if (!changed?.length || !changed.every((name) => notes.includes(name))) return plain.update(id, body, etag)
      const noted = Object.fromEntries(Object.entries(body).filter(([name]) => changed.includes(name)))
      return answer(call('patch', `${path}/{id}`, { params: { path: { id } }, body: noted, headers: ifMatch(etag) }))
    },
    move: (id, after) => answer(call('post', `${path}/{id}/move`, { params: { path: { id } }, body: { after } })),
  }
}

export function singleton<P extends SingletonPath>(kind: string, path: P, method: 'put' | 'post'): Singleton<Data<P>> {
  return {
    kind,
    read: () => answer(call('get', path)),
    update: (body, etag) => answer(call(method, path, { body, headers: ifMatch(etag) })),
  }
}
