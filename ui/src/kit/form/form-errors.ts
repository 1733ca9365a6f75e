import type { FieldValues, Path, UseFormSetError } from 'react-hook-form'
import type { Fault } from '../../api/fault'

/** Fields of the API that the form has under another name. */
export type Covered = Record<string, string>

const operation = /^operations\.\d+\.body\./

/**
 * The field of the form that a complaint such as `servers[2].address` or `allow_acl.0` belongs to. A form that stores
 * several rows at once has `operations.1.body.port` at `port`.
 */
export function fieldOf(complaint: string, known: readonly string[], covered: Covered = {}): string | undefined {
  const path = complaint.replace(operation, '')
  if (known.includes(path)) return path
  const root = path.split(/[.[]/, 1)[0] ?? ''
  return covered[path] ?? (known.includes(root) ? root : covered[root])
}

/** Several complaints about one field are one text; those about no field of this form are kept apart. */
export function sortComplaints(fault: Fault, known: readonly string[], covered?: Covered) {
  const atField: Record<string, string> = {}
  const elsewhere: string[] = []
  for (const [path, message] of Object.entries(fault.fields)) {
    const field = fieldOf(path, known, covered)
    if (!field) elsewhere.push(`${path}: ${message}`)
    else atField[field] = atField[field] ? `${atField[field]} ${message}` : message
  }
  return { atField, elsewhere }
}

/**
 * Puts the server's complaints at their fields and the cursor into the first of them. Returns the text
 * for the top of the form: empty when every complaint found its field.
 */
export function placeFault<T extends FieldValues>(
  fault: Fault,
  known: readonly string[],
  setError: UseFormSetError<T>,
  covered?: Covered,
): string {
  const { atField, elsewhere } = sortComplaints(fault, known, covered)
  const first = known.find((field) => atField[field])
  for (const [field, message] of Object.entries(atField)) {
    setError(field as Path<T>, { type: 'server', message }, { shouldFocus: field === first })
  }
  if (elsewhere.length > 0) return elsewhere.join(' ')
  return Object.keys(atField).length > 0 ? '' : fault.message
}
