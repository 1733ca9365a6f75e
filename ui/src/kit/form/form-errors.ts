import type { FieldValues, Path, UseFormSetError } from 'react-hook-form'
import type { Fault } from '../../api/fault'

/** API fields that have another name in the form. */
export type Covered = Record<string, string>

const operation = /^operations\.\d+\.body\./

/**
 * The form field for an error path such as `servers[2].address` or `allow_acl.0`. A form that stores several rows at
 * once gets `operations.1.body.port`, which is its field `port`.
 */
export function fieldOf(complaint: string, known: readonly string[], covered: Covered = {}): string | undefined {
  const path = complaint.replace(operation, '')
  if (known.includes(path)) return path
  const root = path.split(/[.[]/, 1)[0] ?? ''
  return covered[path] ?? (known.includes(root) ? root : covered[root])
}

/** Merges several errors of a field into one text, and separates errors that belong to no field of this form. */
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
 * Shows the server's errors at their fields, and focuses the first one. Returns the text for the top of the form, which
 * is empty if every error found its field.
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
