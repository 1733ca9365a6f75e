import type { Rule } from '../../api/types'
import type { Filter } from '../../kit/list/list-logic'
import type { Book } from './book'

/** The text to search in a rule: its own, and the names, addresses and ports that it refers to. */
export function ruleText(rule: Rule, book: Book): string {
  return [
    rule.name,
    rule.comment,
    rule.note,
    ...rule.labels,
    rule.action,
    rule.src_zone,
    rule.dst_zone,
    rule.src_cidr,
    rule.dst_cidr,
    book.everything(rule.src_object_id),
    book.everything(rule.src_group_id),
    book.everything(rule.dst_object_id),
    book.everything(rule.dst_group_id),
    book.everything(rule.service_object_id),
    book.everything(rule.service_group_id),
    rule.id,
  ].join(' ')
}

/** The labels in use, sorted. */
export function labelsOf(rows: readonly { labels: string[] }[]): string[] {
  return [...new Set(rows.flatMap((row) => row.labels))].sort((a, b) => a.localeCompare(b))
}

/** A filter by label: chips if there are few, a select if there are many. */
export function labelFilter<T extends { labels: string[] }>(labels: string[], label: string): Filter<T> {
  return {
    key: 'label',
    label,
    options: labels.map((value) => ({ value, label: value })),
    of: (row) => row.labels,
    many: labels.length > 8,
  }
}
