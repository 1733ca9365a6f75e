import { apiFields } from '../../api/fields'
import type { Kind } from '../../api/resource'
import type { FieldSpec } from './fields'
import type { Values } from './form-values'

/** These always have a value, so they are not marked as required. */
const chosen: FieldSpec['type'][] = ['choice', 'segments', 'switch']

/** Adds what the API says about the fields, unless the form says otherwise. */
export function known<const F extends FieldSpec>(kind: Kind, fields: readonly F[]): F[] {
  return fields.map((field) => {
    const { min, max, options, required } = apiFields[kind]?.[field.name] ?? {}
    return { min, max, options, required: required && !chosen.includes(field.type), ...field }
  })
}

/** The initial values of a new row. A select without a default starts as null. */
export function startOfNew(kind: string, fields: readonly FieldSpec[]): Values {
  const start: Values = {}
  for (const { name, type } of fields) {
    const field = apiFields[kind]?.[name]
    if (field) start[name] = type === 'select' && field.start === '' ? null : field.start
  }
  return start
}
