import { apiFields } from '../../api/fields'
import type { Kind } from '../../api/resource'
import type { FieldSpec } from './fields'
import type { Values } from './form-values'

/** What is chosen is always something, and need not be marked as needed. */
const chosen: FieldSpec['type'][] = ['choice', 'segments', 'switch']

/** The fields of a form with what the API says about them, where the form does not say otherwise. */
export function known<const F extends FieldSpec>(kind: Kind, fields: readonly F[]): F[] {
  return fields.map((field) => {
    const { min, max, options, required } = apiFields[kind]?.[field.name] ?? {}
    return { min, max, options, required: required && !chosen.includes(field.type), ...field }
  })
}

/** What the fields of a new row begin with. What is chosen from a list is not chosen yet where the API has nothing. */
export function startOfNew(kind: string, fields: readonly FieldSpec[]): Values {
  const start: Values = {}
  for (const { name, type } of fields) {
    const field = apiFields[kind]?.[name]
    if (field) start[name] = type === 'select' && field.start === '' ? null : field.start
  }
  return start
}
