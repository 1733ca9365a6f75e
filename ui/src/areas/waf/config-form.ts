import type { WafConfig, WafExclusion } from '../../api/types'
import type { Fields, Values } from '../../kit/form/fields'

export type State = 'off' | WafConfig['mode']

/** The state of the WAF for a domain. Without settings it is off. */
export function stateOf(config: Pick<WafConfig, 'enabled' | 'mode'> | undefined): State {
  return config?.enabled ? config.mode : 'off'
}

/** Whether requests pass when they cannot be inspected. */
export function failsOpen({ fail_open, mode }: Pick<WafConfig, 'fail_open' | 'mode'>): boolean {
  return fail_open ?? mode === 'detection'
}

interface RuleRow {
  rule_id: number | null
  note: string
}

const filled = (row: object) => Object.values(row).some((value) => value !== null && value !== '' && value !== false)

const failures = ['mode', 'refuse', 'pass'] as const
const failureOf = (open: boolean | null): (typeof failures)[number] => {
  if (open === null) return 'mode'
  return open ? 'pass' : 'refuse'
}

/** The form has each rule and its note in one row, and the default that depends on the mode as a choice. */
export const configShape = {
  read: (row: Values): Values => {
    const config = row as unknown as WafConfig
    return {
      ...row,
      paranoia_level: String(config.paranoia_level),
      fail_open: failureOf(config.fail_open),
      rule_exclusions: config.rule_exclusions.map(
        (id): RuleRow => ({ rule_id: id, note: config.exclusion_notes[id] ?? '' }),
      ),
    }
  },
  write: (values: Values): Values => {
    const rules = (values.rule_exclusions as RuleRow[]).filter(filled)
    const noted = rules.filter(({ note }) => note !== '')
    return {
      ...values,
      paranoia_level: Number(values.paranoia_level),
      fail_open: values.fail_open === 'mode' ? null : values.fail_open === 'pass',
      rule_exclusions: rules.map(({ rule_id }) => rule_id),
      exclusion_notes: Object.fromEntries(noted.map(({ rule_id, note }) => [String(rule_id), note])),
      exclusions: (values.exclusions as WafExclusion[]).filter(filled),
    }
  },
}

export const configFields = (oversizedHelp: (mode: unknown) => string): Fields<'waf.config'> => [
  { name: 'enabled', type: 'switch' },
  { name: 'mode', type: 'segments' },
  { name: 'paranoia_level', type: 'choice', options: ['1', '2', '3', '4'] },
  { name: 'fail_open', type: 'choice', options: failures, section: 'failure' },
  { name: 'max_body_bytes', type: 'size', required: true },
  { name: 'oversized', type: 'choice', help: ({ mode }) => oversizedHelp(mode) },
  { name: 'inspect_responses', type: 'switch' },
  {
    name: 'rule_exclusions',
    type: 'rows',
    section: 'exclusions',
    covers: ['exclusion_notes'],
    columns: [
      { name: 'rule_id', type: 'number', span: 2 },
      { name: 'note', type: 'text', span: 4 },
    ],
  },
  {
    name: 'exclusions',
    type: 'rows',
    columns: [
      { name: 'rule_id', type: 'number', span: 2 },
      { name: 'path', type: 'mono', span: 4 },
      { name: 'exact', type: 'switch', span: 6 },
      { name: 'variable', type: 'mono', span: 2 },
      { name: 'parameter', type: 'mono', span: 4 },
      { name: 'note', type: 'text', span: 6 },
    ],
  },
  { name: 'trusted_proxies', type: 'list', section: 'client' },
  { name: 'custom_rules', type: 'code', section: 'custom' },
]
