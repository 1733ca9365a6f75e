export type Model = Record<string, unknown> | null | undefined

const bookkeeping = ['id', 'created_at', 'updated_at']

/** The fields that differ between two versions of a resource, except those that the gateway maintains. */
export function modelChanges(before: Model, after: Model) {
  const fields = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])
  return [...fields]
    .filter((field) => !bookkeeping.includes(field))
    .filter((field) => JSON.stringify(before?.[field]) !== JSON.stringify(after?.[field]))
    .map((field) => ({ field, before: before?.[field], after: after?.[field] }))
}
